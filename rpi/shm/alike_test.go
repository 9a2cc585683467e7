package shm

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

// row is messages of one envelope from rank 0 to rank 1.
type row struct {
	*world
	n int // sent
}

func (r *row) send(count, size int, more bool) {
	r.T.Helper()
	h := eager(alike, size)
	for range count {
		if got := moduletest.Offer(r.M[0], 1, &h, numbered(r.n, 97)[:size], 0, more); got != rpi.Taken {
			r.T.Fatal(got)
		}
		r.n++
	}
}

// cells returns how many have been filled.
func (r *row) cells() int { return int(r.M[0].peers[1].out.tail) }

// arrived checks that all have arrived in order, and that nothing is left.
func (r *row) arrived() {
	r.T.Helper()
	r.M[1].Poll()
	got := r.S[1].Got[0]
	if len(got) != r.n || r.M[1].pending() {
		r.T.Fatalf("%d of %d arrived", len(got), r.n)
	}
	for i, f := range got {
		if f.Tag == alike && string(f.Payload) != string(numbered(i, 97)[:len(f.Payload)]) {
			r.T.Fatalf("message %d is another", i)
		}
	}
}

// Messages that may wait share cells if they are alike. They are there at once all the same, also
// where the receiver has read what was in the cell before.
func TestAlike(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	r := &row{world: w}
	want := func(cells int) {
		t.Helper()
		if r.cells() != cells {
			t.Fatalf("%d messages took %d cells, not %d", r.n, r.cells(), cells)
		}
		r.arrived()
	}
	r.send(11, 8, true) // five with their envelope, then seven without it
	want(2)
	r.send(1, 8, true) // into the cell that was read
	want(2)
	r.send(3, 8, true)
	want(3)
	r.send(1, 8, false) // which may not wait
	want(4)
	r.send(1, 8, true)
	want(5)
	r.send(6, 9, true) // longer
	want(6)
	r.send(2, 8, true)
	want(7)
	r.M[0].Flush() // and whoever slept was woken for what was there
	r.send(2, 8, true)
	want(8)
	for _, h := range []rpi.Header{{Kind: rpi.Ack, Req: 5}, {Kind: rpi.Eager, Tag: 1, Ctx: 5, Len: 8}, {Kind: rpi.EagerSync, Tag: alike, Ctx: 5, Len: 8}, {Kind: rpi.Eager, Tag: alike, Ctx: 6, Len: 97}} {
		before := r.cells()
		w.Send(0, 1, h, numbered(r.n, 97)[:h.PayloadLen()], 0, true)
		r.n++
		want(before + 1)
		r.send(2, 8, true)
		want(before + 2)
	}
	before := r.cells()
	r.send(4, 28, true) // longer than two that come with their envelope
	want(before + 2)
	before = r.cells()
	r.send(5, 29, true) // two of them would be too long
	want(before + 5)
}

// A cell without an envelope has that of the last cell that was open, whatever came between and
// however that was received. If the envelope is another, or there was none, the cell has its own.
func TestAlikeAgain(t *testing.T) {
	for _, short := range []bool{false, true} {
		w := newWorld(t, 2)
		w.Send(0, 1, eager(9, 0), nil, 0, false) // which has the ring attached
		w.M[1].Poll()
		taken := 0
		for i, s := range []struct {
			tag        int32
			more, also bool
			ctx        uint64
			typ        uint32
		}{
			{3, true, false, 5, 0}, {3, false, false, 5, 0}, {4, false, false, 5, 0}, {3, true, true, 5, 0},
			{4, true, false, 5, 0}, {3, true, false, 5, 0}, {3, true, true, 5, 0},
			{3, true, false, 5, 1}, {3, true, false, 6, 1}, {3, true, true, 6, 1}, {3, true, false, 6, 0},
		} {
			o := &w.M[0].peers[1].out
			h, text, before := eager(int(s.tag), 8), string(numbered(i, 8)), o.tail
			h.Ctx, h.Type = s.ctx, s.typ
			w.Send(0, 1, h, []byte(text), 0, s.more)
			w.M[0].Flush() // nothing is added
			if word := o.cells[before&o.mask].word; o.tail != before+1 || word&alsoBit != 0 != s.also {
				t.Errorf("message %d: %d cells, word %#x", i, o.tail-before, word)
			}
			if buf := make([]byte, 8); short && w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, buf) == 8 {
				if taken++; string(buf) != text {
					t.Errorf("message %d: took %q", i, buf)
				}
				continue
			}
			w.M[1].Poll()
			if f := w.S[1].Got[0][1+i-taken]; f.Tag != s.tag || f.Ctx != h.Ctx || f.Type != h.Type || string(f.Payload) != text {
				t.Errorf("message %d: %+v", i, f)
			}
		}
		if short != (taken > 2) {
			t.Errorf("%d were taken", taken)
		}
		w.Close()
	}
}

// A message that comes into a cell while the receiver delivers that cell is delivered as well,
// although the next cell has been filled by then.
func TestAlikeMeanwhile(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	r := &row{world: w}
	w.S[1].OnEnd = func(int) {
		if r.n == 2 {
			r.send(1, 8, true) // into the same cell
			r.send(2, 9, true) // and into the next
		}
	}
	r.send(2, 8, true)
	r.arrived()
	if r.n != 5 || r.cells() != 2 {
		t.Errorf("%d messages in %d cells", r.n, r.cells())
	}
}

// Both cells of a pair have the mark of their lap. What an earlier lap left in the second one
// might otherwise be taken for a later cell.
func TestPairIsMarked(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	age(w, 1<<minShift<<7)
	r := &row{world: w}
	before := r.cells()
	r.send(1, pairMax, false)
	in := &w.M[1].peers[0].in
	for at := before; at < r.cells(); at++ {
		if !in.valid(uint32(at)) {
			t.Errorf("cell %d of %d is not marked", at-before, r.cells()-before)
		}
	}
	r.arrived()
}

// A receiver that has enough leaves the rest of a cell for the next Poll. A peer that has left is
// missed only when all was read.
func TestAlikeOneByOne(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	r := &row{world: w}
	w.S[1].Enough = func() bool { return true }
	r.send(7, 8, true)
	w.M[0].Close()
	for i := range r.n {
		if len(w.S[1].Got[0]) != i || !w.M[1].pending() || len(w.S[1].Downs) != 0 {
			t.Fatalf("after %d: %d arrived, pending %v, %v", i, len(w.S[1].Got[0]), w.M[1].pending(), w.S[1].Downs)
		}
		w.M[1].Poll()
	}
	w.M[1].Poll()
	w.M[1].Poll()
	if len(w.S[1].Got[0]) != r.n || len(w.S[1].Downs[0]) != 1 {
		t.Errorf("%d of %d arrived, %v", len(w.S[1].Got[0]), r.n, w.S[1].Downs)
	}
}

// While one side adds to a cell the other reads it, by Poll or, where it can, by the shortcut.
func TestAlikeAtOnce(t *testing.T) {
	for _, short := range []bool{false, true} {
		alikeAtOnce(t, short)
	}
}

func alikeAtOnce(t *testing.T, short bool) {
	w := newWorld(t, 2)
	defer w.Close()
	const n = 50_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := rand.New(rand.NewPCG(1, 2))
		for k := range n {
			h := eager(alike, 2+r.IntN(3)/2*6)
			switch r.IntN(50) {
			case 0:
				h.Kind, h.Req = rpi.EagerSync, 1
			case 1:
				h.Len = 41 + r.Uint64N(pairMax-40) // in two cells
			}
			for moduletest.Offer(w.M[0], 1, &h, numbered(k, pairMax)[:h.Len], 0, r.IntN(20) > 0) == rpi.Full {
				w.M[0].Poll()
				runtime.Gosched()
			}
		}
		w.M[0].Flush()
	}()
	for k := 0; k < n; {
		buf, took := make([]byte, pairMax), shared.TakeOther
		if h := eager(alike, 0); short {
			took = w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, buf)
		}
		switch {
		case took >= 0:
			if string(buf[:took]) != string(numbered(k, pairMax)[:took]) {
				t.Fatalf("message %d is another", k)
			}
			k++
		case took == shared.TakeNone || !w.M[1].Poll():
			runtime.Gosched()
		}
		for _, f := range w.S[1].Got[0] {
			if string(f.Payload) != string(numbered(k, pairMax)[:len(f.Payload)]) {
				t.Fatalf("message %d is another", k)
			}
			k++
		}
		w.S[1].Got[0] = nil
	}
	<-done
}
