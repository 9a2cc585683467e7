//go:build !gorun_nocr

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"pgregory.net/rapid"
)

// dualNet is two ranks that read and write each other's memory.
func dualNet(t testing.TB) (*fakeNet, []*engine.Engine) {
	f := newFakeNet(t, 2)
	f.direct, f.dual = true, true
	return f, f.engines()
}

// Both sides copy, each about half, and no byte travels in a frame.
func TestBothSidesCopy(t *testing.T) {
	f, e := dualNet(t)
	f.lost = func(_, _ int, h *rpi.Header) bool {
		if h.Kind == rpi.Data || h.PayloadLen() > 0 {
			t.Errorf("a frame of kind %d with %d bytes", h.Kind, h.PayloadLen())
		}
		return false
	}
	in := make([]byte, 8<<20)
	sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(len(in), 1), engine.Standard))
	rr := must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
	drive(t, e, func() bool { return e[0].Done(sr) && e[1].Done(rr) })
	if _, err := ended(t, e[1], rr); err != nil || !bytes.Equal(in, pattern(len(in), 1)) {
		t.Fatal(err)
	}
	ended(t, e[0], sr)
	if f.reads != 4 || f.writes != 4 {
		t.Errorf("%d reads, %d writes of 8 segments", f.reads, f.writes)
	}
	checkQuiet(t, f, e)
}

// The sender's buffer is its own again only when the receiver has read its part:
// not before Fin, and a deadline does not change that once the go-ahead came.
func TestSenderWaitsForFin(t *testing.T) {
	f, e := dualNet(t)
	c, cancel := context.WithCancel(context.Background())
	v := engine.NewView(c, e[0])
	defer v.Stop()
	in := make([]byte, 100_000)
	sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(len(in), 1), engine.Standard))
	rr := must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
	for len(f.modules[0].wire[1]) == 0 { // the go-ahead is under way
		e[1].Progress()
	}
	fin := slices.Clone(f.modules[0].wire[1][1:])
	if len(fin) != 1 || fin[0].h.Kind != rpi.Fin || f.reads != 1 {
		t.Fatal(fin, f.reads)
	}
	f.modules[0].wire[1] = f.modules[0].wire[1][:1]
	for range 5 {
		e[0].Progress()
	}
	if f.writes != 1 || e[0].Done(sr) {
		t.Fatal("the send is over before Fin, or does not write: ", f.writes)
	}
	cancel()
	if _, err := e[0].Wait(sr, v); !errors.Is(err, engine.ErrDeadline) {
		t.Fatal(err)
	}
	f.modules[0].wire[1] = fin
	drive(t, e, func() bool { return e[0].Done(sr) && e[1].Done(rr) })
	if _, err := ended(t, e[1], rr); err != nil || !bytes.Equal(in, pattern(len(in), 1)) {
		t.Fatal(err)
	}
	ended(t, e[0], sr)
	checkQuiet(t, f, e)
}

// A send given up before the go-ahead arrives: the receiver may have read by
// then, and fails.
func TestGivenUpWhileRead(t *testing.T) {
	f, e := dualNet(t)
	c, cancel := context.WithCancel(context.Background())
	v := engine.NewView(c, e[0])
	defer v.Stop()
	in := make([]byte, 5<<20)
	rr := must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
	m := f.modules[1]
	m.wire[0] = nil
	f.lost = func(_, _ int, h *rpi.Header) bool {
		if h.Kind == rpi.RTS { // the receiver is as far as it gets before the send is waited for
			m.wire[0] = append(m.wire[0], &fakeFrame{h: *h})
			for range 3 {
				e[1].Progress()
			}
			cancel()
			waitUntil(func() bool { return v.Err() != nil })
			return true
		}
		return false
	}
	if err := e[0].Send(1, ctx, 1, bytesType, pattern(len(in), 1), engine.Standard, v); !errors.Is(err, engine.ErrDeadline) {
		t.Fatal(err)
	}
	if f.reads == 0 || len(f.modules[0].published) != 0 {
		t.Fatal(f.reads, "reads, published", len(f.modules[0].published))
	}
	drive(t, e, func() bool { return e[1].Done(rr) })
	if _, err := ended(t, e[1], rr); !errors.Is(err, engine.ErrCanceled) {
		t.Fatal(err)
	}
	checkQuiet(t, f, e)
}

// The peer dies while it reads, or is read.
func TestPeerDiesBetweenCopies(t *testing.T) {
	for steps := range 10 {
		f, e := dualNet(t)
		in := make([]byte, 9<<20)
		sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(len(in), 1), engine.Standard))
		rr := must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
		f.window = 1
		for i := range steps {
			e[i%2].Progress()
		}
		f.blind, f.fragile = 0, 0 // there is no memory any more
		for i := range e {
			e[i].Progress()
		}
		for i := range e {
			f.modules[i].wire[1-i] = nil
			f.modules[i].sink.Down(1-i, errors.New("killed"))
			e[i].Progress()
			if n := len(f.modules[i].published); n != 0 {
				t.Errorf("rank %d: %d buffers still published after %d steps", i, n, steps)
			}
		}
		if _, err := ended(t, e[0], sr); !errors.Is(err, engine.ErrPeerFailed) {
			t.Fatal(steps, err)
		}
		if _, err := ended(t, e[1], rr); !errors.Is(err, engine.ErrPeerFailed) {
			t.Fatal(steps, err)
		}
	}
}

// Any number of long messages both ways, cut, restarted over the same transport
// with direct copies or without, and finished: every byte comes once.
func TestDirectAnywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFakeNet(t, 2)
		f.direct, f.dual = true, true
		f.window = rapid.IntRange(0, 2).Draw(rt, "window")
		f.split = rapid.Bool().Draw(rt, "split")
		f.blind = rapid.IntRange(-1, 4).Draw(rt, "blind")
		f.fragile = rapid.IntRange(-1, 4).Draw(rt, "fragile")
		e := connect(t, f.asModules(), true)
		defer e[0].Close()
		defer e[1].Close()
		type transfer struct {
			from       int
			send, recv engine.Request
			out, in    []byte
		}
		var all []*transfer
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			from := rapid.IntRange(0, 1).Draw(rt, "from")
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0, 1:
				n := rapid.SampledFrom([]int{19_999, 20_000, 300_001, 3 << 20}).Draw(rt, "size")
				short := rapid.SampledFrom([]int{0, 0, 5000}).Draw(rt, "short")
				x := &transfer{from: from, out: pattern(n, i), in: make([]byte, n-short)}
				x.send = must(t)(e[from].Isend(1-from, ctx, int32(len(all)), bytesType, x.out, engine.Standard))
				x.recv = must(t)(e[1-from].Irecv(from, ctx, int32(len(all)), bytesType, x.in))
				all = append(all, x)
			case 2:
				for range rapid.IntRange(1, 6).Draw(rt, "polls") {
					e[from].Progress()
				}
			case 3:
				cut(t, e)
				open(e)
			case 4:
				cut(t, e)
				f.direct = rapid.Bool().Draw(rt, "direct")
				restart(t, f, e)
				open(e)
			}
		}
		for i, x := range all {
			drive(t, e, func() bool { return e[x.from].Done(x.send) && e[1-x.from].Done(x.recv) })
			if _, err := ended(t, e[1-x.from], x.recv); err != nil && !errors.Is(err, engine.ErrTruncate) || !bytes.Equal(x.in, x.out[:len(x.in)]) {
				rt.Fatal(i, err)
			}
			if _, err := ended(t, e[x.from], x.send); err != nil {
				rt.Fatal(i, err)
			}
		}
		checkQuiet(t, f, e)
	})
}
