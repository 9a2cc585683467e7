package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// fakeImager is a back-end whose copies are children that sleep. What it is
// asked for is told to the test, which may hold it up.
type fakeImager struct {
	whole.Imager
	asked chan whole.CaptureOptions
	done  chan int      // sequences told to be committed
	let   chan struct{} // Capture waits for it
	write chan error    // what Write returns; it waits for it or for Cancel
	pids  chan int      // of copies
	made  chan whole.RestoreOptions
	went  chan int // ranks let go
}

func newFakeImager() *fakeImager {
	return &fakeImager{
		asked: make(chan whole.CaptureOptions, 10), done: make(chan int, 10), let: make(chan struct{}, 10),
		write: make(chan error, 10), pids: make(chan int, 10), made: make(chan whole.RestoreOptions, 10),
		went: make(chan int, 10),
	}
}

func (f *fakeImager) Attach(pid, rank, oob int, _ [3]int) (whole.Target, error) {
	return &fakeTarget{f, pid}, nil
}
func (f *fakeImager) Close() {}

func (f *fakeImager) Restore(o whole.RestoreOptions) (*whole.Restored, error) {
	f.made <- o
	if o.Image.String() == "bad" {
		return nil, errors.New("the image is bad")
	}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(must(syscall.Dup(o.OOB))), "oob")}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	cmd.ExtraFiles[0].Close()
	if o.Hold {
		syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP)
	}
	return &whole.Restored{
		PID: cmd.Process.Pid, Unread: []byte("unread"), Go: func() error { f.went <- o.Rank; return nil },
		End: func() error { cmd.Process.Kill(); cmd.Wait(); return nil },
	}, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type fakeTarget struct {
	f   *fakeImager
	pid int
}

func (t *fakeTarget) Committed(seq int) { t.f.done <- seq }
func (t *fakeTarget) Close() error      { return nil }

func (t *fakeTarget) Capture(o whole.CaptureOptions) (whole.Copy, error) {
	t.f.asked <- o
	<-t.f.let
	if st, ok := procfs.ReadStat(t.pid); !ok || st.Ended() {
		return nil, whole.ErrDied
	}
	pid := must(syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, nil))
	t.f.pids <- pid
	return &fakeCopy{f: t.f, pid: pid, opt: o}, nil
}

type fakeCopy struct {
	f    *fakeImager
	pid  int
	opt  whole.CaptureOptions
	ends int
}

func (c *fakeCopy) PID() int             { return c.pid }
func (c *fakeCopy) Bytes() uint64        { return 3 << 20 }
func (c *fakeCopy) Pause() time.Duration { return time.Millisecond }
func (c *fakeCopy) Base() int            { return c.opt.Base }
func (c *fakeCopy) Note() string         { return "" }

func (c *fakeCopy) Write(to image.Target, m image.Meta, opt image.Options) (image.Summary, error) {
	opt.Progress(2 << 20)
	select {
	case err := <-c.f.write:
		return image.Summary{Path: to.String(), Size: 4242, Raw: 3 << 20, Digest: m.Backend, Codec: opt.Codec}, err
	case <-opt.Cancel:
		return image.Summary{}, image.ErrCanceled
	}
}

func (c *fakeCopy) Release() error {
	if c.ends++; c.ends > 1 {
		return errors.New("released twice")
	}
	syscall.Kill(c.pid, syscall.SIGKILL)
	_, err := syscall.Wait4(c.pid, nil, 0, nil)
	return err
}

// bench is an agent with a head that the test plays.
type bench struct {
	t    *testing.T
	a    *agent
	f    *fakeImager
	head *oob.Conn
	ends chan error
	pids []int  // of the ranks
	said string // their output so far
}

// newBench starts an agent with np ranks that run a shell's script.
func newBench(t *testing.T, np int, script string, change func(*wire.Order)) *bench {
	t.Helper()
	return newBenchOf(t, np, script, func(*agent, *fakeImager) {}, change)
}

// newBenchOf does the same with an agent that prepare changes before it runs.
func newBenchOf(t *testing.T, np int, script string, prepare func(*agent, *fakeImager), change func(*wire.Order)) *bench {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := oob.Pair()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, f: newFakeImager(), head: must(oob.NewConn(ours)), ends: make(chan error, 1)}
	b.a = newAgent(0, must(oob.NewConn(theirs)))
	b.a.images.tracers["fake"] = b.f
	prepare(b.a, b.f)
	go func() { b.ends <- b.a.run() }()
	o := wire.Order{Imager: "fake", Track: true, Images: map[int][]wire.Image{}}
	o.SpawnConfig = oob.SpawnConfig{Program: "/bin/sh", Args: []string{"sh", "-c", script}, Start: map[int]oob.StartConfig{}}
	for rank := range np {
		o.Ranks = append(o.Ranks, rank)
		o.Start[rank] = oob.StartConfig{Rank: rank, Size: np, Incarnation: 7}
	}
	if change != nil {
		change(&o)
	}
	h := wire.Hello("head")
	h.From = oob.Head
	b.send(h, oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(0), Data: wire.JSON(o)})
	b.until(oob.Hello)
	b.pids = make([]int, np)
	return b
}

func (b *bench) send(ms ...oob.Msg) {
	b.t.Helper()
	if err := b.head.Send(ms...); err != nil {
		b.t.Fatal(err)
	}
}

// until returns the next frame of that kind.
func (b *bench) until(kind oob.Kind) oob.Msg {
	b.t.Helper()
	for {
		m, err := b.head.Recv()
		if err != nil {
			b.t.Fatalf("waiting for a frame of kind %d: %v", kind, err)
		}
		if m.Kind == oob.Spawn && m.A != oob.SpawnFree {
			b.pids[m.From] = int(m.B)
		}
		if m.Kind == oob.Output {
			b.said += string(m.Data)
		}
		if m.Kind == oob.Failed && kind != oob.Failed {
			b.t.Fatalf("rank %d: %s", m.From, m.Data)
		}
		if m.Kind == kind {
			return m
		}
	}
}

func (b *bench) order(kind oob.Kind, attempt uint32, rank int, data any) {
	m := oob.Msg{Kind: kind, From: oob.Head, To: int32(rank), Incarnation: 7, Attempt: attempt}
	if data != nil {
		m.Data = wire.JSON(data)
	}
	if seq, ok := data.(int); ok {
		m.A, m.Data = uint64(seq), nil
	}
	b.send(m)
}

// over ends the agent and looks whether anything of it is left.
func (b *bench) over() {
	b.t.Helper()
	b.send(oob.Msg{Kind: oob.KillAll, From: oob.Head, To: oob.AgentAddr(0), B: oob.Goodbye})
	if err := <-b.ends; err != nil {
		b.t.Error(err)
	}
	if left := proc.Children(); len(left) > 0 {
		b.t.Errorf("children are left: %v", left)
	}
	b.head.Close()
	b.a.conn.Close()
}

func capture(seq, base int) oob.CaptureConfig {
	return oob.CaptureConfig{Path: "/snapshots/x/rank.img", Seq: seq, Base: base, Codec: "none", Mode: oob.ModeNative}
}

func TestImaging(t *testing.T) {
	b := newBench(t, 2, "sleep 1000", nil)
	b.until(oob.Spawn)
	b.until(oob.Spawn)
	for attempt, base := range []int{0, 1} {
		n := uint32(attempt + 1)
		b.order(oob.Capture, n, 1, capture(int(n), base))
		if o := <-b.f.asked; o.Seq != int(n) || o.Base != base || !o.Track || o.NoFork {
			t.Fatalf("asked for %+v", o)
		}
		b.order(oob.Ask, n, 1, nil)
		if m := b.until(oob.Where); m.From != 1 || m.Attempt != n || string(m.Data) != "is being copied by its agent" {
			t.Errorf("Where of rank %d in attempt %d: %s", m.From, m.Attempt, m.Data)
		}
		b.f.let <- struct{}{}
		if m := b.until(oob.Captured); m.From != 1 || m.A != 3<<20 || m.Attempt != n || m.Incarnation != 7 {
			t.Errorf("%+v", m)
		}
		b.order(oob.Open, n, 1, nil)
		if m := b.until(oob.Progress); m.A != 2<<20 {
			t.Errorf("%+v", m)
		}
		b.order(oob.Ask, n, 1, nil)
		if m := b.until(oob.Where); string(m.Data) != "has its image written by its agent: 2 of at most 3 MB" {
			t.Errorf("Where: %s", m.Data)
		}
		b.f.write <- nil
		var info oob.ImageInfo
		if err := json.Unmarshal(b.until(oob.Written).Data, &info); err != nil {
			t.Fatal(err)
		}
		want := oob.ImageInfo{File: "rank.img", Size: 4242, Digest: "fake", Codec: "none", Base: base, Pause: int64(time.Millisecond), Raw: 3 << 20}
		if info != want {
			t.Errorf("%+v, want %+v", info, want)
		}
		b.order(oob.Commit, n, 1, int(n))
	}
	if seq := <-b.f.done; seq != 1 {
		t.Errorf("told that %d is committed", seq)
	}
	b.over()
}

// An image that is given up leaves nothing, at whatever step.
func TestImagingReverted(t *testing.T) {
	b := newBench(t, 1, "sleep 1000", nil)
	b.until(oob.Spawn)
	for n, steps := range []int{0, 1, 2} {
		attempt := uint32(n + 1)
		b.order(oob.Capture, attempt, 0, capture(n+1, 0))
		<-b.f.asked
		if steps > 0 {
			b.f.let <- struct{}{}
			b.until(oob.Captured)
		}
		if steps > 1 {
			b.order(oob.Open, attempt, 0, nil)
			b.until(oob.Progress)
		}
		b.order(oob.Revert, attempt, 0, nil)
		if steps == 0 {
			b.f.let <- struct{}{}
		}
		pid := <-b.f.pids
		gone(t, pid)
	}
	b.over()
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	testenv.Until(t, func() string {
		if syscall.Kill(pid, 0) != nil {
			return ""
		}
		return fmt.Sprintf("process %d is left", pid)
	})
}

// A failure to write is told; the next image is none the worse.
func TestImagingFails(t *testing.T) {
	b := newBench(t, 1, "sleep 1000", nil)
	b.until(oob.Spawn)
	b.order(oob.Capture, 1, 0, capture(1, 0))
	b.f.let <- struct{}{}
	b.until(oob.Captured)
	b.order(oob.Open, 1, 0, nil)
	b.f.write <- errors.New("disk full")
	if m := b.until(oob.Failed); m.From != 0 || !strings.Contains(string(m.Data), "disk full") {
		t.Errorf("%+v", m)
	}
	gone(t, <-b.f.pids)
	b.order(oob.Revert, 1, 0, nil)
	b.order(oob.Capture, 2, 0, capture(2, 0))
	b.f.let <- struct{}{}
	b.until(oob.Captured)
	b.over()
	gone(t, <-b.f.pids)
}

// The rank dies while it is copied, or while its image is written: its death is
// told, and the copy goes.
func TestRankDiesWhileImaged(t *testing.T) {
	for _, copied := range []bool{false, true} {
		b := newBench(t, 2, "sleep 1000", nil)
		b.until(oob.Spawn)
		b.until(oob.Spawn)
		b.order(oob.Capture, 1, 0, capture(1, 0))
		<-b.f.asked
		if copied {
			b.f.let <- struct{}{}
			b.until(oob.Captured)
			b.order(oob.Open, 1, 0, nil)
			b.until(oob.Progress)
		}
		syscall.Kill(b.pids[0], syscall.SIGKILL)
		if !copied {
			testenv.Until(t, func() string {
				if st, ok := procfs.ReadStat(b.pids[0]); ok && !st.Ended() {
					return fmt.Sprintf("the rank is in state %c", st.State)
				}
				return ""
			})
			b.f.let <- struct{}{}
		}
		if m := b.until(oob.Exit); m.From != 0 || !syscall.WaitStatus(m.A).Signaled() {
			t.Errorf("%+v", m)
		}
		if copied {
			gone(t, <-b.f.pids)
		}
		b.over()
	}
}

// Where two would not fit into memory the rank stands still, and it is said.
func TestNoMemoryToCopy(t *testing.T) {
	b := newBenchOf(t, 1, "sleep 1000", func(a *agent, _ *fakeImager) {
		a.images.memory.free = func() uint64 { return 1 }
	}, nil)
	b.until(oob.Spawn)
	b.order(oob.Capture, 1, 0, capture(1, 0))
	if o := <-b.f.asked; !o.NoFork {
		t.Errorf("%+v", o)
	}
	b.f.let <- struct{}{}
	b.order(oob.Open, 1, 0, nil)
	b.f.write <- nil
	var info oob.ImageInfo
	if err := json.Unmarshal(b.until(oob.Written).Data, &info); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(info.Note, "stood still") {
		t.Errorf("note %q", info.Note)
	}
	b.over()
}

// Processes that ranks leave behind are reaped as they end, copies and ranks are not.
func TestSweep(t *testing.T) {
	b := newBench(t, 1, "(sleep 1000 & echo $!); sleep 1000", nil)
	b.until(oob.Spawn)
	for b.said == "" {
		b.until(oob.Output)
	}
	var orphan int
	if _, err := fmt.Sscan(b.said, &orphan); err != nil {
		t.Fatal(err)
	}
	b.order(oob.Capture, 1, 0, capture(1, 0))
	b.f.let <- struct{}{}
	b.until(oob.Captured)
	copied := <-b.f.pids
	syscall.Kill(orphan, syscall.SIGKILL)
	gone(t, orphan)
	if left := proc.Children(); !slices.Contains(left, copied) || !slices.Contains(left, b.pids[0]) {
		t.Errorf("children are %v, the rank is %d, the copy %d", left, b.pids[0], copied)
	}
	b.over()
}

// emptyImage makes an image without sections, and returns its path.
func emptyImage(t *testing.T, path string) rawstring.String {
	t.Helper()
	w, err := image.Create(path, image.LocalMeta(), image.Options{})
	if err == nil {
		_, err = w.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	return rawstring.String(path)
}

// A restored rank gets what it had not read and then its new Start, is held if
// that was asked for, and what it says of another life is dropped.
func TestRestore(t *testing.T) {
	images := t.TempDir()
	b := newBench(t, 2, "", func(o *wire.Order) {
		for rank := range 2 {
			s := o.Start[rank]
			s.Backend = "fake"
			o.Start[rank] = s
			o.Images[rank] = []wire.Image{{Seq: 5, Path: rawstring.String(filepath.Join(images, fmt.Sprint(rank)))}}
			emptyImage(t, filepath.Join(images, fmt.Sprint(rank)))
		}
		o.Held, o.Files = []int{1}, whole.FilesCopy
		o.Images[0] = append(o.Images[0], wire.Image{Seq: 3, Path: "three"})
	})
	b.until(oob.Spawn)
	b.until(oob.Spawn)
	for range 2 {
		o := <-b.f.made
		if o.Hold != (o.Rank == 1) || o.Files != whole.FilesCopy || o.Image.String() != filepath.Join(images, fmt.Sprint(o.Rank)) || o.Tag != "0000000000000007" {
			t.Errorf("%+v", o)
		}
		if o.Rank == 0 && o.Base(3).String() != "three" {
			t.Errorf("base %q", o.Base(3))
		}
	}
	if len(b.f.went) > 0 {
		t.Error("let go before the head has said that all are restored")
	}
	b.send(oob.Msg{Kind: oob.Start, From: oob.Head, To: oob.AgentAddr(0)})
	for range 2 {
		if m := b.until(oob.Spawn); m.A != uint64(m.From) { // oob.SpawnRuns, oob.SpawnHeld
			t.Errorf("%+v", m)
		}
	}
	syscall.Kill(b.pids[1], syscall.SIGCONT)
	if m := b.until(oob.Spawn); m.From != 1 || m.A != oob.SpawnFree {
		t.Errorf("%+v", m)
	}
	b.a.mu.Lock()
	r := b.a.ranks[0]
	b.a.mu.Unlock()
	b.a.up(r, oob.Msg{Kind: oob.Ready, Incarnation: 6})
	b.a.up(r, oob.Msg{Kind: oob.Ready, Incarnation: 7, A: 5})
	if m := b.until(oob.Ready); m.A != 5 {
		t.Errorf("%+v", m)
	}
	b.over()
}

// A rank that cannot be restored is told with the reason, and the others end on
// the head's word.
func TestRestoreFails(t *testing.T) {
	b := newBench(t, 2, "", func(o *wire.Order) {
		o.Start[0] = oob.StartConfig{Rank: 0, Size: 2, Incarnation: 7, Backend: "fake"}
		o.Start[1] = oob.StartConfig{Rank: 1, Size: 2, Incarnation: 7, Backend: "fake"}
		o.Images[0], o.Images[1] = []wire.Image{{Path: "bad"}}, []wire.Image{{Path: emptyImage(t, filepath.Join(t.TempDir(), "good"))}}
	})
	if m := b.until(oob.Exit); m.From != 0 || m.B != 0 || !strings.Contains(string(m.Data), "the image is bad") {
		t.Errorf("%+v %s", m, m.Data)
	}
	b.over()
	if len(b.f.went) > 0 {
		t.Error("the other rank has gone on")
	}
}

// A rank that is killed while it waits for the others to be restored is told then.
func TestRestoredAndKilled(t *testing.T) {
	b := newBench(t, 2, "", func(o *wire.Order) {
		for rank := range 2 {
			o.Start[rank] = oob.StartConfig{Rank: rank, Size: 2, Incarnation: 7, Backend: "fake"}
			o.Images[rank] = []wire.Image{{Path: emptyImage(t, filepath.Join(t.TempDir(), "good"))}}
		}
	})
	b.until(oob.Spawn)
	b.until(oob.Spawn)
	syscall.Kill(b.pids[1], syscall.SIGKILL)
	if m := b.until(oob.Exit); m.From != 1 || m.B != 0 || !strings.Contains(string(m.Data), "was killed") {
		t.Errorf("%+v %s", m, m.Data)
	}
	b.over()
	if len(b.f.went) > 0 {
		t.Error("the other rank has gone on")
	}
}

func TestTurns(t *testing.T) {
	d := turns{free: 100}
	none := make(chan struct{})
	if !d.take(60, none) {
		t.Fatal("not given what is free")
	}
	cancelled := make(chan struct{})
	close(cancelled)
	if d.take(60, cancelled) {
		t.Fatal("given what is not free")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if d.take(50, none) {
				d.give(50)
			}
		})
	}
	d.give(60)
	wg.Wait()
	if d.free != 100 || len(d.waiting) > 0 {
		t.Errorf("free %d, %d wait", d.free, len(d.waiting))
	}
}
