// Package moduletest has what the tests of transports have in common: modules of any kind in one
// process, driven by the test itself (World) or by engines (Job), and the tests and benchmarks that
// are the same for all transports.
package moduletest

import (
	"os"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// patience is how long something that must happen may take.
const patience = time.Minute

// Secret is that of the ranks of a World.
var Secret = []byte("the secret of this incarnation..")

// Env is what a rank of a World is told when it starts, except its sink.
func Env(rank, size int) rpi.Env {
	return rpi.Env{Rank: rank, Size: size, Incarnation: 77, Secret: Secret, Params: map[string]string{}}
}

// With is a change of an Env that sets a parameter.
func With(name, value string) func(*rpi.Env) {
	return func(e *rpi.Env) { e.Params[name] = value }
}

// World is a job in one goroutine: every module is polled by the test.
type World[Module rpi.Module] struct {
	T     testing.TB
	M     []Module // by rank
	S     []*Sink  // what each has told
	Addrs [][]byte // of each
}

// NewWorld starts the modules that build makes for n ranks, with Env changed, and
// has them meet. Somebody must call Close.
func NewWorld[Module rpi.Module](t testing.TB, n int, build func(rank int) Module, change ...func(*rpi.Env)) *World[Module] {
	t.Helper()
	w := &World[Module]{T: t}
	for rank := range n {
		e := Env(rank, n)
		for _, f := range change {
			f(&e)
		}
		s := NewSink(n)
		e.Sink = s
		m := build(rank)
		addr, err := m.Start(e)
		if err != nil {
			t.Fatal(err)
		}
		w.M, w.S, w.Addrs = append(w.M, m), append(w.S, s), append(w.Addrs, addr)
	}
	for _, m := range w.M {
		if err := m.Peers(w.Addrs); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Close closes all modules.
func (w *World[Module]) Close() {
	for _, m := range w.M {
		m.Close()
	}
}

// Poll polls each module once.
func (w *World[Module]) Poll() {
	for _, m := range w.M {
		m.Poll()
	}
}

// Until polls until cond holds.
func (w *World[Module]) Until(what string, cond func() bool) {
	w.T.Helper()
	for begin := time.Now(); !cond(); w.Poll() {
		if time.Since(begin) > patience {
			w.T.Fatalf("never: %s", what)
		}
	}
}

// Send polls until the frame is accepted.
func (w *World[Module]) Send(from, to int, h rpi.Header, p []byte, ref rpi.Ref, more bool) rpi.SendResult {
	w.T.Helper()
	var r rpi.SendResult
	w.Until("frame accepted", func() bool {
		r = Offer(w.M[from], to, &h, p, ref, more)
		return r != rpi.Full
	})
	return r
}

// Offer sends a frame as the engine does: where it can, it adds it to the one before.
func Offer(m rpi.Module, to int, h *rpi.Header, p []byte, ref rpi.Ref, more bool) rpi.SendResult {
	if s, ok := m.(shared.Shortcut); ok && more && h.Kind == rpi.Eager && h.Flags == 0 {
		if o := s.Open(to); o.Like(h.Ctx, h.Tag, h.Type, len(p)) {
			o.Add(p)
			return rpi.Taken
		}
	}
	return m.Send(to, h, p, ref, more)
}

// Connect brings the channel of a pair up, by a frame that is then forgotten.
func (w *World[Module]) Connect(from, to int) {
	w.T.Helper()
	before := len(w.S[to].Got[from])
	w.Send(from, to, Eager(0, 0), nil, 0, false)
	w.Until("connected", func() bool { return len(w.S[to].Got[from]) > before })
	w.S[to].Got[from] = nil
	w.S[to].Received[from] = 0
}

// Descriptors counts the open descriptors of this process. Those that Go's run-time opens for its first timer and keeps
// are open by then.
func Descriptors(t testing.TB) int {
	t.Helper()
	time.NewTimer(time.Hour).Stop()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
