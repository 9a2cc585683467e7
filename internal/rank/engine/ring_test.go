package engine_test

import (
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// ringNet connects ranks of one process by rings of cells without locks, one
// for each direction, as shared memory would: what is left of a message's time
// is the engine's. Messages fit a cell; nothing sleeps.
type ringNet struct{ modules []*ringModule }

type ringCell struct {
	turn    atomic.Uint32 // full in this turn of the ring: odd; empty: even
	h       rpi.Header
	payload [64]byte
}

type ring struct {
	cells []ringCell
	next  int // the receiver's, or the sender's
	turn  uint32
}

type ringModule struct {
	*rpi.ChanWaiter
	sink    rpi.Sink
	rank    int
	in, out []*ring // by peer; an end of a ring each, the cells are shared
	full    []bool
}

const ringCells = 1024

func newRingNet(n int) *ringNet {
	f := new(ringNet)
	for i := range n {
		m := &ringModule{ChanWaiter: rpi.NewChanWaiter(), rank: i, in: make([]*ring, n), out: make([]*ring, n), full: make([]bool, n)}
		f.modules = append(f.modules, m)
	}
	for i, m := range f.modules {
		for k, to := range f.modules {
			if i != k {
				cells := make([]ringCell, ringCells)
				m.out[k], to.in[i] = &ring{cells: cells}, &ring{cells: cells}
			}
		}
	}
	return f
}

func (m *ringModule) Name() string { return "ring" }

func (m *ringModule) Start(env rpi.Env) ([]byte, error)   { m.sink = env.Sink; return nil, nil }
func (m *ringModule) Restart(env rpi.Env) ([]byte, error) { return m.Start(env) }
func (m *ringModule) Peers([][]byte) error                { return nil }
func (m *ringModule) Reaches(peer int) bool               { return peer != m.rank }
func (m *ringModule) EagerLimit() int                     { return 64 }
func (m *ringModule) Flush() bool                         { return true }
func (m *ringModule) Arm() bool                           { return false }
func (m *ringModule) Quiesce()                            {}
func (m *ringModule) Quiet() bool                         { return true }
func (m *ringModule) Continue()                           {}
func (m *ringModule) Close() error                        { return nil }

func (m *ringModule) Send(peer int, h *rpi.Header, payload []byte, _ rpi.Ref, _ bool) rpi.SendResult {
	r := m.out[peer]
	c := &r.cells[r.next]
	if c.turn.Load() != 2*r.turn {
		m.full[peer] = true
		return rpi.Full
	}
	c.h = *h
	copy(c.payload[:], payload)
	c.turn.Store(2*r.turn + 1)
	r.step()
	return rpi.Taken
}

func (r *ring) step() {
	if r.next++; r.next == len(r.cells) {
		r.next = 0
		r.turn++
	}
}

func (m *ringModule) Poll() bool {
	moved := false
	for from, r := range m.in {
		if r == nil {
			continue
		}
		for {
			c := &r.cells[r.next]
			if c.turn.Load() != 2*r.turn+1 {
				break
			}
			err := m.sink.Deliver(from, &c.h, c.payload[:c.h.PayloadLen()])
			c.turn.Store(2*r.turn + 2)
			r.step()
			moved = true
			if err != nil {
				break
			}
		}
		if m.full[from] {
			m.full[from] = false
			m.sink.Writable(from)
		}
	}
	return moved
}

func ringEngines(t testing.TB, n int) []*engine.Engine {
	f := newRingNet(n)
	modules := make([]rpi.Module, n)
	for i, m := range f.modules {
		modules[i] = m
	}
	e := connect(t, modules, true)
	t.Cleanup(func() {
		for _, e := range e {
			e.Close()
		}
	})
	return e
}

// counter is a Sink that only counts.
type counter struct {
	rpi.Sink
	n int
}

func (c *counter) Deliver(int, *rpi.Header, []byte) error { c.n++; return nil }

// BenchmarkRing is what one goroutine needs for both sides of a message: the
// ring alone, a blocking pair of calls, and windows of 64 that are waited for
// together.
func BenchmarkRing(b *testing.B) {
	buf := make([]byte, 8)
	b.Run("bare", func(b *testing.B) {
		f := newRingNet(2)
		n := new(counter)
		f.modules[1].sink = n
		h := rpi.Header{Kind: rpi.Eager, Len: 8}
		for b.Loop() {
			f.modules[0].Send(1, &h, buf, 0, false)
			f.modules[1].Poll()
		}
	})
	b.Run("blocking", func(b *testing.B) {
		e := ringEngines(b, 2)
		for b.Loop() {
			if e[0].Send(1, ctx, 1, bytesType, buf, engine.Standard, nil) != nil {
				b.Fatal("send")
			}
			if _, err := e[1].Recv(0, ctx, 1, bytesType, buf, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("window", func(b *testing.B) {
		e := ringEngines(b, 2)
		var sends, recvs [64]engine.Request
		b.ResetTimer()
		for i := 0; i < b.N; i += 64 {
			for k := range recvs {
				recvs[k], _ = e[1].Irecv(0, ctx, 1, bytesType, buf)
			}
			for k := range sends {
				sends[k], _ = e[0].Isend(1, ctx, 1, bytesType, buf, engine.Standard)
			}
			waitEach(b, e[0], sends[:])
			waitEach(b, e[1], recvs[:])
		}
	})
	b.Run("window bare", func(b *testing.B) {
		f := newRingNet(2)
		n := new(counter)
		f.modules[1].sink = n
		h := rpi.Header{Kind: rpi.Eager, Len: 8}
		for i := 0; i < b.N; i += 64 {
			for range 64 {
				f.modules[0].Send(1, &h, buf, 0, false)
			}
			f.modules[1].Poll()
		}
	})
}

func waitEach(b *testing.B, e *engine.Engine, rs []engine.Request) {
	waits := e.BeginWaits()
	defer waits.End()
	for _, r := range rs {
		if _, err := waits.Wait(r, nil); err != nil {
			b.Fatal(err)
		}
	}
}
