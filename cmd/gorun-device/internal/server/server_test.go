package server

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/ranktest"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// session is a rank and its offload process, in one process.
type session struct {
	*ranktest.Rank
	fake *fake
	over chan error // what Serve returned
}

func newSession(t *testing.T) *session { return on(t, newFake()) }

func on(t *testing.T, f *fake) *session {
	s := &session{Rank: ranktest.New(t)}
	if a := s.serve(f, Options{}); a.Op != offload.Hello || a.Error != "" || a.Info.Name != "fake" {
		t.Fatalf("greeting %+v", a)
	}
	return s
}

// serve puts another offload process behind the ring and returns its greeting.
func (s *session) serve(f *fake, opt Options) offload.Answer {
	file := s.Connect()
	conn, err := net.FileConn(file)
	s.Must(err)
	file.Close()
	s.fake, s.over = f, make(chan error, 1)
	over := s.over
	go func() {
		info := offload.Info{Name: "fake", Memory: uint64(f.room)}
		over <- Serve(conn, s.Ring, func() (driver.Queue, offload.Info, error) { return f, info, nil }, opt)
		conn.Close()
	}()
	return s.Answer()
}

// send sends an order whose answer is not waited for here.
func (s *session) send(o offload.Order) {
	p, err := offload.Packet(o)
	s.Must(err)
	_, err = s.Conn.Write(p)
	s.Must(err)
}

// end waits for the end of the process.
func (s *session) end() {
	s.Conn.Close()
	s.Must(<-s.over)
}

func (s *session) run(kernel uint64, args ...offload.Arg) uint64 {
	return s.Put(offload.Command{Op: offload.Run, Flags: offload.Timed, A: [8]uint64{kernel, 1, 8}, Args: args})
}

func memArg(id uint64) offload.Arg  { return offload.Arg{Kind: offload.ArgMemory, Value: id} }
func byteArg(n uint64) offload.Arg  { return offload.Arg{Kind: offload.ArgScalar, Bytes: 1, Value: n} }
func order(op string) offload.Order { return offload.Order{Op: op, Attempt: 1} }
func (s *session) none(_ string, refused bool) {
	s.Helper()
	if refused {
		s.Fatal("refused")
	}
}

// refused wants a word in a refusal.
func (s *session) refused(text string, refused bool, want string) {
	s.Helper()
	if !refused || !strings.Contains(text, want) {
		s.Errorf("refused %v: %q, want %q in it", refused, text, want)
	}
}

// TestPauseNamesTheKernel pauses while a kernel runs, asks what runs, gives up, and pauses again when the kernel has ended.
func TestPauseNamesTheKernel(t *testing.T) {
	s := newSession(t)
	s.none(s.Build(1, "spin", "add spin"))
	ticket := s.run(1)
	<-s.fake.spinning
	s.send(order(offload.OrderPause))
	if a := s.Order(order(offload.OrderLate), "pausing"); !strings.Contains(a.Error, "kernel spin, command 2") {
		t.Errorf("%+v", a)
	}
	s.Order(offload.Order{Op: offload.OrderRevert, Attempt: 2}, "running")
	s.fake.spins <- struct{}{}
	s.Wait(ticket)
	if a := s.Order(offload.Order{Op: offload.OrderPause, Attempt: 3}, "paused"); a.Taken != ticket || s.Ring.State() != offload.Paused {
		t.Errorf("%+v", a)
	}
	s.end()
}

// TestRankGone ends the process in the middle of a kernel, which many attempts to pause have waited for.
func TestRankGone(t *testing.T) {
	s := newSession(t)
	s.none(s.Build(1, "spin", "spin"))
	s.run(1)
	<-s.fake.spinning
	for i := range uint32(20) {
		s.send(offload.Order{Op: offload.OrderPause, Attempt: 2 * i})
		s.Order(offload.Order{Op: offload.OrderRevert, Attempt: 2*i + 1}, "running")
	}
	s.end()
	s.fake.spins <- struct{}{}
}

// TestFailures has one command fail: later ones have no effect, and all is told by name.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		bad  offload.Command
		want string
	}{
		{offload.Command{Op: offload.Write, A: [8]uint64{1, 60, 8, 0}}, "command 3, write: 8 bytes at 60 do not lie in memory 1 of 64 bytes"},
		{offload.Command{Op: offload.Read, A: [8]uint64{1, 0, 8, 1 << 40}}, "do not lie in the staging memory"},
		{offload.Command{Op: offload.Copy, A: [8]uint64{1, 0, 9, 0, 1}}, "no memory 9"},
		{offload.Command{Op: offload.Run, A: [8]uint64{7, 1, 8}}, "no kernel 7"},
		{offload.Command{Op: offload.Run, A: [8]uint64{1, 4, 8}}, "4 dimensions"},
		{offload.Command{Op: offload.Run, A: [8]uint64{1, 1, 8}, Args: []offload.Arg{memArg(3)}}, "argument 0: the device has no memory 3"},
		{offload.Command{Op: offload.Free, A: [8]uint64{4}}, "no memory 4"},
		{offload.Command{Op: offload.Drop, A: [8]uint64{4}}, "no kernel 4"},
		{offload.Command{Op: 99}, "no command that this gorun-device knows"},
	} {
		s := newSession(t)
		s.none(s.Build(1, "add", "add"))
		s.none(s.Alloc(1, 64))
		s.Put(c.bad)
		s.Done(s.run(1, memArg(1), byteArg(1)))
		if ticket, text := s.Ring.Failed(); ticket != 3 || !strings.Contains(text, c.want) {
			t.Errorf("command %d failed: %q, want %q", ticket, text, c.want)
		}
		text, refused := s.Alloc(2, 8)
		s.refused(text, refused, "the device has failed: ")
		s.Order(order(offload.OrderPause), "paused")
		if a := s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: filepath.Join(t.TempDir(), "c")}, "paused"); !strings.Contains(a.Error, "the device has failed") {
			t.Errorf("%+v", a)
		}
		if m := s.fake.mem[1]; !bytes.Equal(m, make([]byte, 64)) {
			t.Errorf("a later command had an effect: %v", m)
		}
		s.end()
	}
}

// TestLateFailures has a kernel fail that the device has accepted, and behind it, in the same batch, a command that is refused for that: the failure is the
// kernel's, and no want of memory.
func TestLateFailures(t *testing.T) {
	for _, behind := range []offload.Command{
		{Op: offload.Free, A: [8]uint64{1}},
		{Op: offload.Alloc, A: [8]uint64{2, 8, 0, 0, 4096}},
	} {
		s := newSession(t)
		s.none(s.Build(1, "break", "break add"))
		s.none(s.Alloc(1, 64))
		s.Order(order(offload.OrderPause), "paused") // so that both are one batch
		kernel := s.run(1)
		last := s.Put(behind)
		s.Order(order(offload.OrderResume), "running")
		s.Done(last)
		if ticket, text := s.Ring.Failed(); ticket != kernel || !strings.Contains(text, "a bad address") {
			t.Errorf("%v behind it: command %d failed, not %d: %q", behind.Op, ticket, kernel, text)
		}
		if behind.Op == offload.Alloc {
			text, refused := s.Ring.Refused(last, 0, 4096)
			s.refused(text, refused, "the device has failed: ")
		}
		s.end()
	}
}

// TestRefusals has things refused that may be tried again.
func TestRefusals(t *testing.T) {
	s := newSession(t)
	text, refused := s.Build(1, "add", "wrong")
	s.refused(text, refused, "line 1: wrong")
	text, refused = s.Build(1, "sub", "add")
	s.refused(text, refused, "no kernel of this name")
	if s.fake.built != 0 {
		t.Error("a program that nobody uses is kept")
	}
	text, refused = s.Alloc(1, 1<<40)
	s.refused(text, refused, "out of memory")
	s.none(s.Alloc(1, 8))
	text, refused = s.Alloc(1, 8)
	s.refused(text, refused, "the number is taken")
	s.none(s.Build(1, "add", "add spin"))
	s.none(s.Build(2, "spin", "add spin"))
	if s.fake.built != 1 {
		t.Errorf("%d programs for one text", s.fake.built)
	}
	s.Wait(s.Put(offload.Command{Op: offload.Drop, A: [8]uint64{1}}))
	s.Wait(s.Put(offload.Command{Op: offload.Drop, A: [8]uint64{2}}))
	if s.fake.built != 0 {
		t.Error("a program that nobody uses is kept")
	}
	if a := s.Order(offload.Order{Op: "dance", Attempt: 1}, "running"); !strings.Contains(a.Error, `no order "dance"`) {
		t.Errorf("%+v", a)
	}
	s.end()
}

// TestCompiledOnce has a text compiled once, however many kernels are of it and whenever they are made; so it is in a process that has taken the place of another.
// A text that differs is another, even if the kernel's name does not.
func TestCompiledOnce(t *testing.T) {
	s := newSession(t)
	for id, k := range [][2]string{{"add", "add spin"}, {"add", "add spin"}, {"spin", "add spin"}, {"add", "add"}, {"add", "add "}, {"add", "add"}} {
		s.none(s.Build(uint64(id+1), k[0], k[1]))
	}
	want := []string{"add spin", "add", "add "}
	if !slices.Equal(s.fake.compiled, want) {
		t.Errorf("%q were compiled, not %q", s.fake.compiled, want)
	}
	s.none(s.Alloc(1, 8))
	s.Order(order(offload.OrderPause), "paused")
	path := filepath.Join(t.TempDir(), "c")
	s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: path, End: true}, "captured")
	s.Answer()
	s.end()
	if a := s.serve(newFake(), Options{Restore: path}); a.Op != offload.Hello || a.Error != "" {
		t.Fatalf("greeting %+v", a)
	}
	s.Order(order(offload.OrderResume), "running")
	s.none(s.Build(7, "spin", "add spin"))
	s.none(s.Build(8, "add", "add"))
	if !slices.Equal(s.fake.compiled, want) {
		t.Errorf("after a restore %q were compiled, not %q", s.fake.compiled, want)
	}
	for id := range uint64(8) {
		if id != 2 && id != 6 { // they spin
			s.Wait(s.run(id+1, memArg(1), byteArg(1)))
		}
	}
	if got := s.Read(1, 1); got[0] != 6 {
		t.Errorf("6 kernels have added %d", got[0])
	}
	s.none(s.Build(9, "add", "  add"))
	if len(s.fake.compiled) != 4 {
		t.Errorf("a new text: %q were compiled", s.fake.compiled)
	}
	s.end()
}

// TestTimes moves the device's clock to the machine's.
func TestTimes(t *testing.T) {
	s := newSession(t)
	s.none(s.Build(1, "add", "add"))
	s.none(s.Alloc(1, 8))
	before := now()
	ticket := s.run(1, memArg(1), byteArg(1))
	s.Wait(ticket)
	begin, end := s.Ring.Times(ticket)
	if time.Duration(end-begin) != 2*time.Second || time.Duration(end) < before || time.Duration(end) > now() {
		t.Errorf("from %d to %d, it is %d", begin, end, now())
	}
	s.end()
}

// TestRevertWhileCapturing gives up in the middle of a capture, and behind a whole one. Neither leaves a file, and the rank computes on.
func TestRevertWhileCapturing(t *testing.T) {
	f := newFake()
	f.reads = make(chan struct{})
	s := on(t, f)
	s.none(s.Build(1, "add", "add"))
	s.none(s.Alloc(1, 64))
	dir := t.TempDir()
	capture := offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: filepath.Join(dir, "c")}
	s.Order(order(offload.OrderPause), "paused")
	s.send(capture)
	f.reads <- struct{}{} // it reads
	if a := s.Answer(); a.Op != "captured" {
		t.Errorf("%+v", a)
	}
	s.Order(offload.Order{Op: offload.OrderRevert, Attempt: 2}, "running")
	s.Order(order(offload.OrderPause), "paused")
	s.send(capture)
	s.send(offload.Order{Op: offload.OrderRevert, Attempt: 3})
	close(f.reads) // it may not have come to read
	if a := s.Answer(); a.Op != "running" || a.Attempt != 3 {
		t.Errorf("%+v", a)
	}
	s.Wait(s.run(1, memArg(1), byteArg(3)))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s.end()
}

// TestCaptureElsewhere tries a folder that is missing, then one that is there.
func TestCaptureElsewhere(t *testing.T) {
	s := newSession(t)
	s.none(s.Alloc(1, 64))
	s.Order(order(offload.OrderPause), "paused")
	a := s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: filepath.Join(t.TempDir(), "none", "c")}, "paused")
	if !strings.Contains(a.Error, "no such file") {
		t.Errorf("%+v", a)
	}
	path := filepath.Join(t.TempDir(), "c")
	if a := s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 2, Path: path, End: true}, "captured"); a.Bytes == 0 {
		t.Errorf("%+v", a)
	}
	if a := s.Answer(); a.Op != "ended" || s.Ring.State() != offload.Ended {
		t.Errorf("%+v", a)
	}
	s.end()
	s.notBehindAnother(path)
}

// notBehindAnother tries the capture behind a ring that stands elsewhere, and a ring whose process has died.
func (s *session) notBehindAnother(path string) {
	other := &session{Rank: ranktest.New(s.T)}
	if a := other.serve(newFake(), Options{Restore: path}); a.Op != offload.Hello || !strings.Contains(a.Error, "after command 1, the rank's ring stands at 0") {
		s.Errorf("%+v", a)
	}
	other.end()
	dead := &session{Rank: ranktest.New(s.T)}
	dead.Put(offload.Command{Op: offload.Free})
	dead.Ring.SetTaken(1)
	if a := dead.serve(newFake(), Options{}); a.Op != offload.Hello || !strings.Contains(a.Error, "commands 1 to 1 were begun") {
		s.Errorf("%+v", a)
	}
	dead.Conn.Close()
	if err := <-dead.over; err == nil {
		s.Error("served behind a ring whose process has died")
	}
}

// TestContents has whatever a device holds come back: kernels, memories that are kept, and zeros for the others.
func TestContents(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := newSession(t)
		s.none(s.Build(1, "add", "add spin"))
		contents, skip := s.fill(r)
		s.Order(order(offload.OrderPause), "paused")
		path := filepath.Join(t.TempDir(), "c")
		s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: path, End: true, Skip: skip}, "captured")
		s.Answer()
		s.end()
		if a := s.serve(newFake(), Options{Restore: path}); a.Op != offload.Hello || a.Error != "" {
			t.Fatalf("greeting %+v", a)
		}
		s.Order(order(offload.OrderResume), "running")
		for id, want := range contents {
			s.holds(id, want)
		}
		s.none(s.Alloc(90, 8))
		s.Wait(s.run(1, memArg(90), byteArg(7)))
		if got := s.Read(90, 2); got[0] != 7 {
			t.Fatalf("seed %d: the kernel makes %v", seed, got)
		}
		s.end()
	}
}

// fill makes some memories, and says what they hold after a capture without those in skip.
func (s *session) fill(r *rand.Rand) (contents map[uint64][]byte, skip []uint64) {
	contents = map[uint64][]byte{}
	for id := uint64(1); id <= 1+r.Uint64N(4); id++ {
		p := make([]byte, 1+r.IntN(300)+[]int{0, partBytes - 1, 2 * partBytes}[r.IntN(3)])
		for i := range min(len(p), 300) {
			p[i] = byte(r.Uint32())
		}
		s.none(s.Alloc(id, uint64(len(p))))
		s.Write(id, p[:min(len(p), 300)])
		contents[id] = p
		if r.IntN(3) == 0 {
			skip = append(skip, id)
			clear(p)
		}
	}
	return contents, skip
}

// holds compares a memory, part by part.
func (s *session) holds(id uint64, want []byte) {
	s.Helper()
	for at, n := range parts(uint64(len(want))) {
		s.Wait(s.Put(offload.Command{Op: offload.Read, A: [8]uint64{id, at, n, 0}}))
		if !bytes.Equal(s.Ring.Staging()[:n], want[at:at+n]) {
			s.Fatalf("memory %d differs behind %d", id, at)
		}
	}
}

// TestStrangers has a rank ask its process for what another rank has on the same device. Numbers mean nothing to another rank's process, and memory that was another's
// is zero.
func TestStrangers(t *testing.T) {
	one := newSession(t)
	one.none(one.Alloc(1, 64))
	one.Write(1, []byte("secret"))
	for _, c := range []offload.Command{
		{Op: offload.Read, A: [8]uint64{1, 0, 64, 0}},
		{Op: offload.Copy, A: [8]uint64{2, 0, 1, 0, 64}},
		{Op: offload.Run, A: [8]uint64{1, 1, 8}, Args: []offload.Arg{memArg(1), byteArg(1)}},
		{Op: offload.Free, A: [8]uint64{1}},
	} {
		other := on(t, one.fake)
		other.none(other.Build(1, "add", "add"))
		other.none(other.Alloc(2, 64))
		if got := other.Read(2, 64); !bytes.Equal(got, make([]byte, 64)) {
			t.Errorf("new memory holds %q", got)
		}
		other.Done(other.Put(c))
		if ticket, text := other.Ring.Failed(); ticket == 0 || !strings.Contains(text, "the device has no memory 1") {
			t.Errorf("%v: %q", c.Op, text)
		}
		other.end()
	}
	if got := one.Read(1, 6); string(got) != "secret" {
		t.Errorf("the owner reads %q", got)
	}
	one.end()
}
