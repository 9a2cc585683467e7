package shm

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// The shortcut takes a message in a part of a cell, in one cell, in two or in a chunk. It takes just
// what was asked for and nothing else.
func TestTakeShort(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	a, b := w.M[0], w.M[1]
	take := func(tag, room int) int {
		h := eager(tag, 0)
		buf := make([]byte, room)
		n := b.TakeShort(0, h.Ctx, h.Tag, h.Type, buf)
		if n >= 0 && string(buf[:n]) != string(pattern(tag, n)) {
			t.Errorf("message %d is another", tag)
		}
		return n
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, not %d", what, got, want)
		}
	}
	want("no ring yet", take(1, 8), shared.TakeNone)
	w.Connect(0, 1)
	want("an empty ring", take(1, 8), shared.TakeNone)
	send := func(tag, n int, more bool) { t.Helper(); w.Send(0, 1, eager(tag, n), pattern(tag, n), 0, more) }
	for _, n := range []int{0, 1, 8, 40, 41, 96, 97, 1000, 8 << 10} {
		send(n, n, false)
		want("another tag", take(n+1, n), shared.TakeOther)
		if n > 0 {
			want("too little room", take(n, n-1), shared.TakeOther)
		}
		want("just as long", take(n, n), n)
		want("nothing left", take(n, n), shared.TakeNone)
	}
	for range 7 {
		send(7, 8, true)
	}
	for range 7 {
		want("of several in a cell", take(7, 100), 8)
	}
	want("an open cell without more", take(7, 8), shared.TakeNone)
	send(7, 8, true)
	for want("in the open cell", take(7, 8), shared.TakeOther); b.Poll(); {
	}
	for _, h := range []rpi.Header{{Kind: rpi.EagerSync, Tag: 7, Ctx: 5, Len: 8}, {Kind: rpi.EagerSync, Tag: 7, Ctx: 5, Len: pairMax}, {Kind: rpi.Eager, Tag: 7, Ctx: 5, Len: largeChunk + 1}, {Kind: rpi.Eager, Flags: rpi.FlagGone, Tag: 7, Ctx: 5, Len: 8}} {
		w.Send(0, 1, h, pattern(7, int(h.Len)), 0, false)
		want("a frame of another kind", take(7, rpi.MaxFrame), shared.TakeOther)
		w.Until("polled", func() bool { return !b.pending() })
	}
	w.Send(2, 1, eager(7, 8), pattern(7, 8), 0, false)
	want("from another rank", take(7, 8), shared.TakeOther)
	w.Until("polled", func() bool { return !b.pending() })
	a.Poll()
	for range 10 << maxShift { // the sender hears what was used
		send(7, 8, false)
		want("lap after lap", take(7, 8), 8)
	}
	if n := len(b.told); n != 0 {
		take(7, 8)
		want("told, and not assured", len(b.told), 0)
	}
}

// The sender of a chunk that was taken learns that it may use it again: by an answer, or when the
// receiver has nothing else to do. Only if neither comes for long is it told at once.
func TestTakeShortTells(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	a, b := w.M[0], w.M[1]
	h := eager(1, 1000)
	pass := func() {
		t.Helper()
		w.Send(0, 1, h, pattern(1, 1000), 0, false)
		if n := b.TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, 1000)); n != 1000 {
			t.Fatal(n)
		}
	}
	w.Connect(0, 1)
	for name, rest := range map[string]func(){
		"nothing to take": func() { b.TakeShort(0, h.Ctx, h.Tag, h.Type, nil) },
		"poll":            func() { b.Poll() },
		"sleep":           func() { b.Arm() },
		"answer":          func() { answer := eager(2, 8); w.Send(1, 0, answer, pattern(2, 8), 0, false); a.Poll() },
	} {
		for range 3 {
			pass()
		}
		rest()
		if name != "answer" {
			a.learn(1)
		} else if told := b.peers[0].in.told; b.TakeShort(0, h.Ctx, h.Tag, h.Type, nil) != shared.TakeNone || b.peers[0].in.told != told {
			t.Error("told by the answer, and once more")
		}
		if n := a.peers[1].out.leased; n != 0 {
			t.Errorf("%s: %d chunks are out", name, n)
		}
		for b.Poll() {
		}
	}
	for range 10 * len(b.peers[0].in.cells) {
		if pass(); len(b.owing) > 1 {
			t.Fatalf("%d notes for one peer", len(b.owing))
		}
		if a.learn(1); a.peers[1].out.leased > 1 {
			t.Fatalf("%d chunks are out, and nobody waits for anything", a.peers[1].out.leased)
		}
	}
}

// If there are more ranks than chunks of a kind, a rank that takes a message and then computes
// keeps no chunk from its sender, which has others to send to.
func TestTakeShortKeepsNothing(t *testing.T) {
	for _, ranks := range []int{16, 17} {
		w := newWorld(t, ranks)
		a := w.M[0]
		h := eager(1, 8<<10)
		for to := 1; to < ranks; to++ {
			w.Connect(0, to)
			w.Send(0, to, h, pattern(1, 8<<10), 0, false)
			if n := w.M[to].TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, 8<<10)); n != 8<<10 {
				t.Fatal(n)
			}
		}
		a.reclaim()
		if n := int(a.pool.free[1].n); n == 0 || n < a.geo.large && !a.lends {
			t.Errorf("of %d ranks one has %d chunks of %d left", ranks, n, a.geo.large)
		}
		w.Close()
	}
}

// Nothing more is taken from a peer that says what cannot be, not even the message that says it.
func TestTakeShortOfCorrupt(t *testing.T) {
	for _, n := range []int{8, 1000} {
		w := newWorld(t, 2)
		a, b := w.M[0], w.M[1]
		w.Connect(0, 1)
		w.Connect(1, 0)
		w.Send(1, 0, eager(1, 1000), pattern(1, 1000), 0, false) // a chunk that is out
		h := eager(2, n)
		w.Send(0, 1, h, pattern(2, n), 0, false)
		o := &a.peers[1].out
		atomic.AddUint64(&o.cells[(o.tail-1)&o.mask].word, 1000<<32)
		for range 2 {
			if got := b.TakeShort(0, h.Ctx, h.Tag, h.Type, make([]byte, n)); got >= 0 {
				t.Errorf("%d bytes of a message that says that more was used than there was", got)
			}
		}
		b.Poll()
		if d := w.S[1].Downs[0]; len(d) != 1 || !errors.Is(d[0], ErrCorrupt) {
			t.Errorf("told: %v", d)
		}
		a.Close()
		b.Close()
	}
}
