package shm

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

var loneSizes = []int{pairMax + 1, 1000, smallChunk - 1, smallChunk, smallChunk + 1, 4095, 4096, 4097, mostLone - 1, mostLone}

// halve turns the message sent last into one whose second half is being written. It returns how to
// end that.
func halve(m *Module, peer int) (whole func()) {
	o := &m.peers[peer].out
	word := &o.cells[(o.tail-1)&o.mask].word
	atomic.AddUint64(word, half)
	return func() { atomic.AddUint64(word, ^uint64(half-1)) }
}

// takes receives a message by the shortcut.
func takes(t testing.TB, m *Module, from int, h rpi.Header, want []byte) {
	t.Helper()
	buf := make([]byte, len(want)+1)
	if n := m.TakeShort(from, h.Ctx, h.Tag, h.Type, buf); n != len(want) || string(buf[:n]) != string(want) {
		t.Fatalf("%d bytes of %d, or they differ", n, len(want))
	}
}

// A plain message of up to 8 KB takes one cell and one chunk. It is taken from there or delivered,
// and the chunk is free when the sender hears of it.
func TestLone(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	a, b := w.M[0], w.M[1]
	w.Connect(0, 1)
	w.Connect(1, 0)
	free := int(a.pool.free[0].n) + int(a.pool.free[1].n)
	for _, more := range []bool{false, true} {
		for _, n := range loneSizes {
			for _, send := range []func(h rpi.Header, p []byte){
				func(h rpi.Header, p []byte) {
					if !a.SendShort(1, h.Ctx, h.Tag, h.Type, p, more) {
						t.Fatalf("%d bytes were refused", n)
					}
				},
				func(h rpi.Header, p []byte) { w.Send(0, 1, h, p, 0, more) },
			} {
				h, p, tail := eager(n, n), pattern(n, n), a.peers[1].out.tail
				send(h, p)
				takes(t, b, 0, h, p)
				send(h, p)
				w.S[1].Got[0] = nil
				b.Poll()
				if got := w.S[1].Got[0]; len(got) != 1 || got[0].Header != h || string(got[0].Payload) != string(p) {
					t.Fatalf("%d bytes did not arrive: %v", n, got)
				}
				if cells := a.peers[1].out.tail - tail; cells != 2 {
					t.Errorf("two messages of %d bytes took %d cells", n, cells)
				}
				w.Send(1, 0, eager(1, 0), nil, 0, false)
				a.Poll()
				if a.peers[1].out.leased != 0 || int(a.pool.free[0].n)+int(a.pool.free[1].n) != free {
					t.Fatalf("%d bytes: %d chunks are out", n, a.peers[1].out.leased)
				}
			}
		}
	}
	for _, n := range []int{mostLone + 1, 1 << 20} {
		if a.SendShort(1, 5, 1, 0, pattern(1, n), false) {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

// A message with another envelope, or for which there is not enough room, is left where it is, in
// whatever form it came. A poll delivers it.
func TestTakesOnlyItsOwn(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	type question struct {
		ctx  uint64
		tag  int32
		typ  uint32
		room int
	}
	for _, n := range []int{8, inlineMax + 1, pairMax, pairMax + 1, leastHalved, mostLone} {
		for _, more := range []bool{false, true} {
			h := eager(7, n)
			h.Type = 3
			w.Send(0, 1, h, pattern(7, n), 0, more)
			for _, q := range []question{{h.Ctx + 1, 7, 3, n}, {h.Ctx, 8, 3, n}, {h.Ctx, 7, 4, n}, {h.Ctx, 7, 3, n - 1}} {
				if got := w.M[1].TakeShort(0, q.ctx, q.tag, q.typ, make([]byte, q.room)); got != shared.TakeOther {
					t.Errorf("%d bytes: asked for %+v, took %d", n, q, got)
				}
			}
			w.S[1].Got[0] = nil
			w.M[1].Poll()
			if got := w.S[1].Got[0]; len(got) != 1 || got[0].Header != h || string(got[0].Payload) != string(pattern(7, n)) {
				t.Fatalf("%d bytes did not arrive: %v", n, got)
			}
		}
	}
}

// While a sender looks for a chunk it may find the receiver corrupt. That peer gets none, and
// those that it had are free.
func TestLoneToCorrupt(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	shrink(w, 5, 3)
	w.Connect(0, 1)
	a := w.M[0]
	free := a.pool.free[0].n + a.pool.free[1].n
	for a.SendShort(1, 5, 1, 0, pattern(1, 1000), true) {
	}
	if a.peers[1].out.space() == 0 || a.pool.free[0].n+a.pool.free[1].n != 0 {
		t.Fatal("there are chunks left")
	}
	atomic.StoreUint32(a.peers[1].out.taken, a.peers[1].out.tail+1)
	if a.SendShort(1, 5, 1, 0, pattern(1, 1000), true) {
		t.Error("a message to it was taken")
	}
	if a.peers[1].out.leased != 0 || a.pool.free[0].n+a.pool.free[1].n != free {
		t.Errorf("%d chunks are out", a.peers[1].out.leased)
	}
}

// A message of which one half is there is not there. Nobody takes it, and nobody is disturbed or
// kept from sleep by it. What is in other rings passes. The other half wakes the rank that sleeps.
func TestHalf(t *testing.T) {
	for _, n := range []int{leastHalved, mostLone} {
		for name, end := range map[string]func(w *world, h rpi.Header, whole func()){
			"taken": func(w *world, h rpi.Header, whole func()) {
				whole()
				takes(t, w.M[1], 0, h, pattern(7, n))
			},
			"polled": func(w *world, h rpi.Header, whole func()) {
				w.M[1].Poll()
				if w.M[1].Poll() || w.M[1].pending() {
					t.Error("half a message is something to do")
				}
				if got := w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, n)); got != shared.TakeNone {
					t.Errorf("half a message polled, and taken: %d", got)
				}
				w.Send(2, 1, eager(8, 8), pattern(8, 8), 0, false)
				w.M[1].Poll()
				if len(w.S[1].Got[2]) != 1 {
					t.Error("half a message is in the way of another rank's")
				}
				whole()
				if got := w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, n)); got != shared.TakeOther {
					t.Errorf("the second half has come, and: %d", got)
				}
				w.M[1].Poll()
			},
			"slept": func(w *world, h rpi.Header, whole func()) {
				w.M[1].Poll()
				if !w.M[1].Arm() {
					t.Error("half a message keeps a rank awake")
				}
				whole()
				if w.M[1].Arm() {
					t.Error("sleeps in spite of a message")
				}
				w.M[1].Poll()
			},
			"followed": func(w *world, h rpi.Header, whole func()) {
				w.M[1].Poll()
				whole()
				w.Send(0, 1, eager(9, 9), pattern(9, 9), 0, false)
				w.M[1].Poll()
				w.M[1].Poll()
				if got := w.S[1].Got[0]; len(got) != 2 || got[1].Tag != 9 {
					t.Error(got)
				}
			},
		} {
			w := newWorld(t, 3)
			w.Connect(0, 1)
			w.Connect(2, 1)
			h := eager(7, n)
			w.Send(0, 1, h, pattern(7, n), 0, false)
			whole := halve(w.M[0], 1)
			for range 2 {
				if got := w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, n)); got != shared.TakePart {
					t.Errorf("half a message was taken: %d", got)
				}
			}
			end(w, h, whole)
			if got := w.S[1].Got[0]; name != "taken" && (len(got) == 0 || string(got[0].Payload) != string(pattern(7, n))) {
				t.Errorf("%s: %d bytes have not arrived", name, n)
			}
			h.Tag = 8 // and all is as before
			w.Send(0, 1, h, pattern(8, n), 0, false)
			takes(t, w.M[1], 0, h, pattern(8, n))
			w.Close()
		}
	}
}

// A rank that leaves, or is lost, in the middle of a message is missed. What it sent before has
// arrived.
func TestHalfAtTheEnd(t *testing.T) {
	for _, why := range []error{ErrClosed, ErrDied} {
		w := newWorld(t, 2)
		w.Connect(0, 1)
		w.Send(0, 1, eager(1, 1000), pattern(1, 1000), 0, false)
		w.Send(0, 1, eager(2, mostLone), pattern(2, mostLone), 0, false)
		halve(w.M[0], 1)
		if why == ErrClosed {
			w.M[0].Close()
		} else {
			w.M[1].ending(0, why)
		}
		for range 3 {
			w.M[1].Poll()
		}
		if d := w.S[1].Downs[0]; len(d) != 1 || !errors.Is(d[0], why) {
			t.Errorf("%v: %v", why, d)
		}
		if got := w.S[1].Got[0]; len(got) != 1 {
			t.Errorf("%d messages of one have arrived", len(got))
		}
		w.M[1].Close()
		w.M[0].Close()
	}
}

// After a restart no half message is left.
func TestHalfForgotten(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	w.Send(0, 1, eager(1, mostLone), pattern(1, mostLone), 0, false)
	whole := halve(w.M[0], 1)
	w.M[1].Poll()
	whole()
	for _, m := range w.M {
		m.Quiesce()
		for m.Poll() {
		}
	}
	if len(w.S[1].Got[0]) != 1 {
		t.Fatal("a message was left in shared memory")
	}
	w.Send(0, 1, eager(1, mostLone), pattern(1, mostLone), 0, false)
	halve(w.M[0], 1)
	w.M[1].Poll()
	var addrs [][]byte
	for i, m := range w.M {
		e := env(i, 2)
		e.Sink = w.S[i]
		addr, err := m.Restart(e)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr)
	}
	for _, m := range w.M {
		if err := m.Peers(addrs); err != nil {
			t.Fatal(err)
		}
	}
	w.Connect(0, 1)
	for i := range 3 {
		h := eager(i, mostLone)
		w.Send(0, 1, h, pattern(i, mostLone), 0, false)
		takes(t, w.M[1], 0, h, pattern(i, mostLone))
	}
}

// Two ranks that run at the same time pass messages to and fro, and the second half of each is
// written while the first is read: by the shortcut, by polls, and by both alternately.
func TestHalvesTogether(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	w.Connect(1, 0)
	ends := make(chan error, 2)
	for me := range 2 {
		go func() {
			m, s := w.M[me], w.S[me]
			buf := make([]byte, mostLone)
			for i := range 2 * rounds {
				h := eager(i, leastHalved+i*37%(mostLone-leastHalved+1))
				want := pattern(i, int(h.Len))
				if i%2 == me {
					for moduletest.Offer(m, 1-me, &h, want, 0, false) == rpi.Full {
						m.Poll()
					}
					continue
				}
				n := shared.TakeNone
				for n < 0 && len(s.Got[1-me]) == 0 {
					if i%3 != 0 {
						n = m.TakeShort(1-me, h.Ctx, h.Tag, h.Type, buf)
					}
					if n < 0 && i%5 != 0 {
						m.Poll()
					}
					if i%15 == 0 {
						m.Poll()
					}
					runtime.Gosched() // there may be one processor
				}
				got := buf[:max(n, 0)]
				if n < 0 {
					got = s.Got[1-me][0].Payload
					s.Got[1-me] = nil
				}
				if string(got) != string(want) {
					ends <- fmt.Errorf("message %d of %d bytes differs", i, len(want))
					return
				}
			}
			ends <- nil
		}()
	}
	for range 2 {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
}

// Impossible content of such a cell is neither taken nor delivered, and ends the channel.
func TestLoneOfCorrupt(t *testing.T) {
	place := func(at, n int) func(*Module, []cell) {
		return func(_ *Module, c []cell) { c[0].lone().place = uint64(uint32(at)) | uint64(n)<<32 }
	}
	amidst := func(bit uint64) func(*Module, []cell) {
		return func(m *Module, c []cell) {
			c[1] = c[0]
			c[1].word |= bit
			h := rpi.Header{Kind: rpi.Data, Len: 100}
			c[0].wide().put(&h, uint32(c[1].lone().place), 50)
			c[0].word = word(uint16(c[1].word), rpi.Data, formWhole, 0, 0)
		}
	}
	l := layoutOf(2)
	for name, spoil := range map[string]func(m *Module, c []cell){
		"no bytes":            place(l.pool, 0),
		"too many":            place(l.pool, mostLone+1),
		"very many":           place(l.pool, 1<<32-1),
		"before the pool":     place(l.pool-1, 8),
		"in the control part": place(0, 8),
		"across the end":      place(l.size-mostLone+1, mostLone),
		"behind the end":      place(l.size, 1),
		"far behind":          place(1<<32-1, 1),
		"several":             func(_ *Module, c []cell) { c[0].word += 1 << countShift },
		"none":                func(_ *Module, c []cell) { c[0].word -= 1 << countShift },
		"half, and a cell":    func(m *Module, c []cell) { c[0].word |= half; m.SendShort(1, 5, 1, 0, nil, false) },
		"amidst a frame":      amidst(0),
		"half amidst a frame": amidst(half),
	} {
		for _, take := range []bool{true, false} {
			w := newWorld(t, 2)
			a, b := w.M[0], w.M[1]
			w.Connect(0, 1)
			h := eager(2, leastHalved)
			w.Send(0, 1, h, pattern(2, leastHalved), 0, false)
			o := &a.peers[1].out
			spoil(a, o.cells[(o.tail-1)&o.mask:])
			for i := 0; take && i < 3; i++ {
				if n := b.TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, mostLone)); n >= 0 {
					t.Errorf("%s: %d bytes", name, n)
				}
				b.Poll()
			}
			refused(w, name)
		}
	}
}

// Such a cell cannot come where messages of another cell are expected, whether all of those were
// delivered or not.
func TestLoneInAnOpenCell(t *testing.T) {
	for _, bit := range []uint64{0, half} {
		for _, all := range []bool{false, true} {
			w := newWorld(t, 2)
			w.Connect(0, 1)
			for range 2 {
				w.Send(0, 1, eager(2, 8), pattern(2, 8), 0, true)
			}
			w.S[1].Enough = func() bool { return !all }
			w.M[1].Poll()
			o := &w.M[0].peers[1].out
			c := &o.cells[(o.tail-1)&o.mask]
			c.lone().place = uint64(w.M[0].layout.pool) | leastHalved<<32
			atomic.StoreUint64(&c.word, word(uint16(c.word), 1, formLone, 0, 0)|bit)
			if n := w.M[1].TakeShort(0, 5, 2, 0, make([]byte, mostLone)); n >= 0 {
				t.Errorf("%d bytes", n)
			}
			refused(w, "an open cell")
		}
	}
}

// refused checks that rank 1 gives rank 0 up because of what that says.
func refused(w *world, name string) {
	w.T.Helper()
	for range 3 {
		w.M[1].Poll()
	}
	if d := w.S[1].Downs[0]; len(d) != 1 || !errors.Is(d[0], ErrCorrupt) {
		w.T.Errorf("%s: %v", name, d)
	}
	w.Close()
}

// A message behind half a message is not taken instead of it.
func TestAfterHalf(t *testing.T) {
	w := newWorld(t, 2)
	w.Connect(0, 1)
	w.Send(0, 1, eager(1, leastHalved), pattern(1, leastHalved), 0, false)
	halve(w.M[0], 1)
	w.M[1].Poll()
	h := eager(2, 8)
	w.Send(0, 1, h, pattern(2, 8), 0, false)
	if n := w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, 8)); n != shared.TakeOther {
		t.Errorf("taken: %d", n)
	}
	refused(w, "a cell after half a message")
}

// A pair of cells has one eager message, of a length for which there is room in two cells and not
// in one.
func TestPairOfCorrupt(t *testing.T) {
	for _, c := range []struct {
		kind rpi.Kind
		n    uint8
	}{
		{rpi.Eager, 0}, {rpi.Eager, 8}, {rpi.Eager, inlineMax}, {rpi.Eager, pairMax + 1}, {rpi.Eager, 255},
		{0, pairMax}, {rpi.EagerSync, pairMax}, {31, pairMax},
	} {
		w := newWorld(t, 2)
		w.Connect(0, 1)
		h := eager(1, pairMax)
		w.Send(0, 1, h, pattern(1, pairMax), 0, false)
		o := &w.M[0].peers[1].out
		first := &o.cells[(o.tail-2)&o.mask]
		first.word = word(uint16(first.word), c.kind, formPair, c.n, 0)
		if got := w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, 1000)); got != shared.TakeOther {
			t.Errorf("kind %d, %d bytes: %d were taken", c.kind, c.n, got)
		}
		refused(w, "a pair")
	}
}
