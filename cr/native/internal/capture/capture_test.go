//go:build amd64

package capture

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

func testAgent(t testing.TB) *Agent {
	threads := trace.NewThreads(2)
	t.Cleanup(threads.Close)
	return New(threads)
}

// TestCapture images a program that spins, collects garbage and asks for the
// time, again and again: it goes on each time.
func TestCapture(t *testing.T) {
	v := newVictim(t, testAgent(t), "spin", "churn", "16")
	for seq := range 5 {
		c, err := v.target.capture(whole.CaptureOptions{Seq: seq + 1})
		if err != nil {
			t.Fatal(err)
		}
		v.Works()
		if c.Bytes() < 16<<20 || c.Pause() <= 0 || c.Base() != 0 || c.Note() != "" {
			t.Errorf("%d bytes, pause %v, base %d, note %q", c.Bytes(), c.Pause(), c.Base(), c.Note())
		}
		s, _ := v.write(c)
		v.Works()
		checkState(t, v, s)
	}
}

// checkState checks what every image of a victim has to say.
func checkState(t *testing.T, v *victim, s *state.State) {
	t.Helper()
	if s.PID != v.PID || s.Rank != 7 || s.OOB != 3 || s.Base != 0 || s.Exe != v.Cmd.Path || s.BuildID == "" || len(s.ExeSum) != 64 {
		t.Errorf("pid %d, rank %d, oob %d, exe %s, build id %s, sum %s", s.PID, s.Rank, s.OOB, s.Exe, s.BuildID, s.ExeSum)
	}
	if want := strings.Join(v.Cmd.Args, "\x00") + "\x00"; string(s.Cmdline) != want {
		t.Errorf("arguments %q, want %q", s.Cmdline, want)
	}
	if dir, _ := os.Getwd(); s.Dir != dir || s.Mono == 0 || s.VDSO.Start == 0 || s.Comm != filepath.Base(v.Cmd.Path) || s.MM.StartStack == 0 {
		t.Errorf("folder %s, clock %d, vdso %#x, name %s, layout %+v", s.Dir, s.Mono, s.VDSO.Start, s.Comm, s.MM)
	}
	if s.Host.Kernel == "" || s.Host.XSave == 0 || len(s.Actions) != 64 || s.Actions[int(unix.SIGURG)-1].Handler == 0 {
		t.Errorf("host %+v, %d actions", s.Host, len(s.Actions))
	}
	for i := range s.Threads {
		th := &s.Threads[i]
		r, err := trace.RegsOf(th.Regs)
		if err != nil || int64(r.Orig_rax) >= 0 || int64(r.Rax) <= -512 && int64(r.Rax) > -520 {
			t.Errorf("thread %d: %+v, %v", th.TID, r, err)
		}
		if th.AltStack[0] == 0 || th.AltStack[2] < 2048 || len(th.XState) < 576 {
			t.Errorf("thread %d: signal stack %x, %d bytes of vector registers", th.TID, th.AltStack, len(th.XState))
		}
	}
}

// TestMemory compares the whole memory of a process that stands still with its
// image, page by page.
func TestMemory(t *testing.T) {
	for _, what := range [][]string{{"3"}, {"spin", "20", "many"}, {"readonly", "pipe"}} {
		v := newVictim(t, testAgent(t), what...)
		c, err := v.target.capture(whole.CaptureOptions{NoFork: true})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "image")
		sum, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{Codec: image.Snappy})
		if err != nil {
			t.Fatal(err)
		}
		compareMemory(t, v.PID, path)
		if c.PID() != 0 || c.Pause() <= 0 {
			t.Errorf("pid %d, pause %v", c.PID(), c.Pause())
		}
		if err := c.Release(); err != nil {
			t.Error(err)
		}
		if over := sum.Size - int64(c.Bytes()); over > 1<<20 {
			t.Errorf("image of %d bytes for %d of memory", sum.Size, c.Bytes())
		}
		v.Works()
	}
}

// TestBorrowed: what a capture writes for its own use is in no copy.
func TestBorrowed(t *testing.T) {
	v := newVictim(t, testAgent(t))
	s, _ := v.capture(whole.CaptureOptions{})
	r, err := trace.RegsOf(s.Threads[0].Regs)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := trace.OpenMemory(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	own := bytes.Repeat([]byte("own "), trace.ScratchSize/4) // Go leaves these words alone
	if err := mem.Poke(own, r.Fs_base); err != nil {
		t.Fatal(err)
	}
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	copied := make([]byte, trace.ScratchSize)
	if err := c.own.Peek(copied, r.Fs_base); err != nil || !bytes.Equal(copied, own) {
		t.Errorf("the copy holds %q, %v", copied, err)
	}
	if err := mem.Peek(copied, r.Fs_base); err != nil || !bytes.Equal(copied, own) {
		t.Errorf("the process holds %q, %v", copied, err)
	}
	v.Works()
}

// compareMemory checks that an image gives back the memory of the process.
func compareMemory(t *testing.T, pid int, path string) {
	t.Helper()
	r, err := image.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := state.Read(image.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	m, err := trace.OpenMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	saved := make(map[uint64][]byte)
	for _, sec := range r.Sections() {
		if sec.Kind != state.KindPages {
			continue
		}
		var base uint64
		fmt.Sscanf(sec.Name, "%x", &base)
		list, n, err := pages.ParseRuns(sec.Type)
		if err != nil || uint64(n)*pages.Size != sec.Size {
			t.Fatalf("window %s: %s, %v", sec.Name, sec.Type, err)
		}
		data := make([]byte, sec.Size)
		if err := r.ReadSection(sec.Kind, sec.Name, data); err != nil {
			t.Fatal(err)
		}
		for _, run := range list {
			for i := range run.N {
				page := nativetest.ZeroPage[:]
				if run.Kind == 'd' {
					page, data = data[:pages.Size], data[pages.Size:]
				}
				saved[base+uint64(run.First+i)*pages.Size] = page
			}
		}
	}
	now, page := make([]byte, pages.Size), make([]byte, pages.Size)
	different, looked := 0, 0
	for _, reg := range s.Regions {
		file, _ := os.Open(reg.Path)
		for at := reg.Start; at < reg.End; at += pages.Size {
			if m.Peek(now, at) != nil {
				continue // beyond the end of a file
			}
			looked++
			clear(page)
			if p, ok := saved[at]; ok {
				copy(page, p)
			} else if file != nil {
				file.ReadAt(page, int64(reg.Offset+at-reg.Start))
			}
			if !bytes.Equal(now, page) {
				different++
			}
		}
		file.Close()
	}
	if different > 0 || looked < 500 {
		t.Errorf("%d of %d pages differ", different, looked)
	}
}

func TestManyGoroutines(t *testing.T) {
	v := newVictim(t, testAgent(t), "many", "spin", "threads")
	s, _ := v.capture(whole.CaptureOptions{})
	if len(s.Threads) < 20 {
		t.Errorf("%d threads", len(s.Threads))
	}
	v.Works()
}

// TestBirths images a program whose threads come and go all the time.
func TestBirths(t *testing.T) {
	v := newVictim(t, testAgent(t), "births", "births")
	for range 5 {
		v.capture(whole.CaptureOptions{})
		v.Works()
	}
}

// TestRefused: what cannot be imaged is named, with a remedy, and the program
// goes on.
func TestRefused(t *testing.T) {
	tr := testAgent(t)
	for what, named := range map[string]string{
		"memfd":   "shared memory /memfd:numbers",
		"sysv":    "System V",
		"inotify": "inotify",
		"seccomp": "seccomp",
		"private": "may not be read",
		"parent":  "another process",
		"thread":  "of one thread",
	} {
		if what == "private" && os.Getuid() == 0 || what == "sysv" && trace.SameSysV() == nil {
			continue // may read it all the same; can have it again
		}
		v := newVictim(t, tr, what)
		c, err := v.target.capture(whole.CaptureOptions{})
		if err == nil {
			c.Release()
		}
		if !errors.Is(err, refusal.ErrRefused) || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", what, err)
		}
		v.Works()
		v.End()
	}
}

// TestRefusedLate: what only the copy shows is refused when it is to be written.
func TestRefusedLate(t *testing.T) {
	tr := testAgent(t)
	for what, named := range map[string]string{
		"dontfork": "MADV_DONTFORK",
		"filemap":  "shared mapping",
	} {
		v := newVictim(t, tr, what)
		c, err := v.target.capture(whole.CaptureOptions{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		_, err = c.Write(image.Path(filepath.Join(dir, "image")), image.LocalMeta(), image.Options{})
		if !errors.Is(err, refusal.ErrRefused) || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v left", left)
		}
		c.Release()
		v.Works()
		v.End()
	}
}

// TestTraced: a program in a debugger is left to it.
func TestTraced(t *testing.T) {
	v, debugger := newVictim(t, testAgent(t), "debugged"), newVictim(t, testAgent(t))
	fmt.Fprintln(debugger.In, "debug", v.PID)
	if line := debugger.Line(); line != "attached" {
		t.Fatal(line)
	}
	if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, refusal.ErrRefused) || !strings.Contains(err.Error(), "debugger") {
		t.Error(err)
	}
}

// filesOf finds the descriptors of a kind.
func filesOf(s *state.State, kind string) []state.File {
	return slices.DeleteFunc(slices.Clone(s.Files), func(f state.File) bool { return f.Kind != kind })
}

func TestFiles(t *testing.T) {
	v := newVictim(t, testAgent(t), "log", "deleted", "pipe", "events")
	if _, err := v.OOB.WriteString("not read yet"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first has taken nothing away
		s, r := v.capture(whole.CaptureOptions{})
		if string(s.Unread) != "not read yet" {
			t.Errorf("unread %q", s.Unread)
		}
		if got := filesOf(s, state.FileOOB); len(got) != 1 || got[0].FD != 3 {
			t.Errorf("stream to the agent: %+v", got)
		}
		if got := filesOf(s, state.FileStdio); len(got) != 3 || got[2].FD != 2 {
			t.Errorf("stdio: %+v", got)
		}
		checkRegular(t, s, r)
		checkEvents(t, s)
		pipe := slices.DeleteFunc(filesOf(s, state.FilePipe), func(f state.File) bool {
			_, ok := r.Lookup(state.KindPipe, fmt.Sprint(f.FD))
			return !ok && f.Flags&unix.O_ACCMODE == unix.O_RDONLY || f.Flags&unix.O_CLOEXEC == 0 // not ours
		})
		if len(pipe) != 2 || pipe[0].Pipe != pipe[1].Pipe || pipe[0].Pipe == 0 || contentOf(t, r, state.KindPipe, pipe[0].FD) != "in the pipe" {
			t.Errorf("pipe: %+v", pipe)
		}
		v.Works()
	}
}

func contentOf(t *testing.T, r *image.Reader, kind string, fd int) string {
	t.Helper()
	s, _ := r.Lookup(kind, fmt.Sprint(fd))
	p := make([]byte, s.Size)
	if err := r.ReadSection(kind, fmt.Sprint(fd), p); err != nil {
		t.Error(err)
	}
	return string(p)
}

func checkRegular(t *testing.T, s *state.State, r *image.Reader) {
	t.Helper()
	var log, deleted bool
	for _, f := range filesOf(s, state.FileRegular) {
		switch {
		case strings.Contains(f.Path, "/log"):
			log = true
			if f.Offset != 12 || f.Size != 12 || f.Deleted || f.Flags&unix.O_ACCMODE != unix.O_RDWR || f.Flags&unix.O_CLOEXEC == 0 {
				t.Errorf("log: %+v", f)
			}
		case f.Deleted:
			deleted = true
			if got := contentOf(t, r, state.KindFile, f.FD); got != "no name, but content" || f.Offset != int64(len(got)) || strings.Contains(f.Path, "(") {
				t.Errorf("deleted file: %+v, %q", f, got)
			}
		}
	}
	if !log || !deleted {
		t.Errorf("log %v, deleted %v", log, deleted)
	}
}

func checkEvents(t *testing.T, s *state.State) {
	t.Helper()
	ev, tm := filesOf(s, state.FileEvent), filesOf(s, state.FileTimer)
	// The runtime has an eventfd of its own.
	ev = slices.DeleteFunc(ev, func(f state.File) bool { return f.Count != 5 })
	if len(ev) != 2 || ev[1].Same != ev[0].FD || ev[0].Same != ev[0].FD || len(tm) != 1 {
		t.Fatalf("eventfds %+v, timers %+v", ev, tm)
	}
	if timer := tm[0].Timer; timer == nil || timer.Clock != 1 || timer.Value < 990e9 || timer.Value > 1000e9+5 {
		t.Errorf("timer %+v", timer)
	}
	for _, ep := range filesOf(s, state.FileEpoll) {
		if len(ep.Epoll) == 2 && ep.Epoll[0].Data&^(1<<32-1) == 0 {
			w := ep.Epoll
			slices.SortFunc(w, func(a, b proc.Watch) int { return int(a.Data) - int(b.Data) })
			if w[0].FD == ev[0].FD && w[0].Data&0xffffffff == 77 && w[1].FD == tm[0].FD && w[1].Data&0xffffffff == 78 {
				return
			}
		}
	}
	t.Errorf("epoll sets %+v", filesOf(s, state.FileEpoll))
}

// TestCopyHoldsNothing: the peers of a rank see it die although its copy lives.
func TestCopyHoldsNothing(t *testing.T) {
	v := newVictim(t, testAgent(t), "16")
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", c.PID())); err != nil || len(fds) > 0 {
		t.Errorf("the copy has descriptors %v, %v", fds, err)
	}
	v.Cmd.Process.Kill()
	if n, err := v.OOB.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	// And it can be written although the program has gone.
	v.write(c)
}

// TestStopped: a process that was stopped by a signal is imaged, and remains
// stopped until it is told to go on.
func TestStopped(t *testing.T) {
	v := newVictim(t, testAgent(t), "spin", "births") // a thread may be half born then
	for range 5 {
		unix.Kill(v.PID, unix.SIGSTOP)
		nativetest.WaitState(t, v.PID, 'T')
		v.capture(whole.CaptureOptions{})
		nativetest.WaitState(t, v.PID, 'T')
		unix.Kill(v.PID, unix.SIGCONT)
		v.Works()
	}
}

// TestLettingGo: a thread that is still being let go, as it would not stop at an attempt
// before, is waited for.
func TestLettingGo(t *testing.T) {
	v := newVictim(t, testAgent(t), "spin", "churn", "16")
	before := trace.NewThreads(1)
	defer before.Close()
	var err error
	before.Do(func() { err = trace.Seize(v.PID, trace.TraceOptions) })
	if err != nil {
		t.Fatal(err)
	}
	var c *captured
	done := make(chan error, 1)
	go func() {
		var err error
		c, err = v.target.capture(whole.CaptureOptions{Seq: 1})
		done <- err
	}()
	b := trace.Backoff{}
	for len(done) == 0 && b.Sleep(300*time.Millisecond) { // many times as long as all tries
	}
	before.Do(func() {
		var s trace.Stop
		if err = trace.Interrupt(v.PID); err == nil {
			s, err = trace.WaitStop(v.PID, trace.StopLimit)
		}
		if err == nil && s.Delivery() {
			err = trace.Detach(v.PID, s.Sig)
		} else if err == nil {
			err = trace.Detach(v.PID, 0)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	v.Works()
	v.write(c)
	v.Works()
}

// TestKilled: a rank that dies at any moment is reported as dead, and nothing of
// it is left.
func TestKilled(t *testing.T) {
	tr := testAgent(t)
	died, lived := 0, 0
	for i := range 30 {
		v := newVictim(t, tr, "spin", "threads", "4")
		// At any moment of the capture, however long it takes here.
		var wg sync.WaitGroup
		wg.Go(func() {
			pause := unix.NsecToTimespec(rand.Int64N(12e6))
			unix.Nanosleep(&pause, nil)
			v.Cmd.Process.Kill()
		})
		c, err := v.target.capture(whole.CaptureOptions{NoFork: i%4 == 3})
		switch {
		case err == nil:
			lived++
			if c.PID() != 0 {
				v.write(c)
			}
			c.Release()
		case errors.Is(err, whole.ErrDied):
			died++
		default:
			t.Error(err)
		}
		wg.Wait()
		v.End()
		if v.Cmd.ProcessState == nil || v.Cmd.ProcessState.String() != "signal: killed" {
			t.Errorf("ended by %v", v.Cmd.ProcessState)
		}
	}
	t.Logf("%d died, %d lived long enough", died, lived)
	if pids := nativetest.OwnChildren(t); len(pids) > 0 {
		t.Errorf("children %v are left", pids)
	}
}

// TestCopyKilled: when the kernel or somebody ends the copy, its image fails and
// the program goes on.
func TestCopyKilled(t *testing.T) {
	v := newVictim(t, testAgent(t), "16")
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	unix.Kill(c.PID(), unix.SIGKILL)
	path := filepath.Join(t.TempDir(), "image")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{}); !errors.Is(err, errCopyDied) {
		t.Error(err)
	}
	if err := c.Release(); err != nil {
		t.Error(err)
	}
	v.Works()
	v.capture(whole.CaptureOptions{})
}

// TestCanceled: an image that is given up leaves nothing.
func TestCanceled(t *testing.T) {
	v := newVictim(t, testAgent(t), "64")
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	dir, stop := t.TempDir(), make(chan struct{})
	var once sync.Once
	_, err = c.Write(image.Path(filepath.Join(dir, "image")), image.LocalMeta(), image.Options{
		Workers: 1, Cancel: stop,
		Progress: func(n uint64) {
			if n > 1<<20 {
				once.Do(func() { close(stop) })
			}
		},
	})
	if !errors.Is(err, image.ErrCanceled) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v left", left)
	}
	if _, err := c.Write(image.Path(filepath.Join(dir, "image")), image.LocalMeta(), image.Options{}); err == nil {
		t.Error("what was given back was written again")
	}
	v.Works()
}

// TestGivenBack: what was read of the copy is not kept.
func TestGivenBack(t *testing.T) {
	v := newVictim(t, testAgent(t), "256", "dirty")
	c, err := v.target.capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if _, err := c.Write(image.Path(filepath.Join(t.TempDir(), "image")), image.LocalMeta(), image.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := proc.Parsed(c.PID(), "status", proc.ParseStatus)
	if err != nil || s.Anon > 16<<20 {
		t.Errorf("the copy has %d bytes still, %v", s.Anon, err)
	}
	v.Works()
}

// TestAtOnce captures several processes at the same time.
func TestAtOnce(t *testing.T) {
	tr := testAgent(t)
	var wg sync.WaitGroup
	for range 6 {
		v := newVictim(t, tr, "spin", "4")
		wg.Go(func() {
			for range 5 {
				c, err := v.target.capture(whole.CaptureOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Write(image.Path(filepath.Join(t.TempDir(), "image")), image.LocalMeta(), image.Options{}); err != nil {
					t.Error(err)
				}
				c.Release()
			}
			v.Works()
		})
	}
	wg.Wait()
}
