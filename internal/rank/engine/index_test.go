package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// crowd is an engine with much that does not concern the context under test: messages, receives, sends and probes of
// other contexts, and of the same one with other tags.
type crowd struct {
	t testing.TB
	e *Engine
}

// theirs are contexts of others, mine is the one under test. All are of communicators, so the lowest bit is 0.
const mine = 2

func theirs(i int) uint64 { return 1000 + 2*uint64(i/7) }

func newCrowd(t testing.TB, n int) *crowd {
	e := New(Config{Size: 1, Manual: true})
	e.Start()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &crowd{t, e}
	for i := range n {
		x.keep(theirs(i), int32(i%3))
		x.post(theirs(i)+1, int32(i%3))
		x.ssend(theirs(i)+1e9, int32(i%3))
		x.probe(theirs(i)+2e9, int32(i%3), purpose(i%2))
	}
	return x
}

func (x *crowd) keep(ctx uint64, tag int32) {
	m := x.e.messages.get(0)
	m.h = rpi.Header{Kind: rpi.Eager, Ctx: ctx, Tag: tag}
	x.e.arrive(m)
}

func (x *crowd) post(ctx uint64, tag int32) Request {
	r, err := x.e.Irecv(0, ctx, tag, nil, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func (x *crowd) ssend(ctx uint64, tag int32) Request {
	r, err := x.e.Isend(0, ctx, tag, nil, nil, Synchronous)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func (x *crowd) probe(ctx uint64, tag int32, to purpose) *waiter {
	w := &waiter{woken: make(chan struct{}, 1), probing: probing{probe: true, to: to, ctx: ctx, tag: tag}}
	x.e.table.watch(w)
	return w
}

// is checks what has become of a request.
func (x *crowd) is(r Request, want error) {
	x.t.Helper()
	if _, done, err := x.e.Test(r); !done || !errors.Is(err, want) {
		x.t.Errorf("over: %v, with %v; want %v", done, err, want)
	}
}

// concerning are the calls that concern one context, one request or one message.
var concerning = []struct {
	name string
	call func(x *crowd)
}{
	{"free", func(x *crowd) {
		x.keep(mine, 1)
		x.keep(mine, 2)
		before := x.e.table.kept
		x.e.FreeContext(mine)
		if n := before - x.e.table.kept; n != 2 {
			x.t.Errorf("%d messages were dropped, want 2", n)
		}
	}},
	{"free of what has nothing", func(x *crowd) { x.e.FreeContext(mine) }},
	{"poison", func(x *crowd) {
		x.keep(mine, 1)
		posted, sent, probed := x.post(mine, 3), x.ssend(mine, 4), x.probe(mine, 5, takes)
		x.e.Poison(mine, nil, errors.New("x"))
		x.is(posted, ErrPoisoned)
		x.is(sent, ErrPoisoned)
		if !probed.ready || !errors.Is(probed.err, ErrPoisoned) {
			x.t.Errorf("the probe ends with %v", probed.err)
		}
	}},
	{"give a send to oneself up", func(x *crowd) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := x.ssend(mine, 1)
		kept := x.e.table.kept
		x.e.mu.lock()
		given := x.e.abandon(r.r)
		x.e.mu.unlock()
		if !given || x.e.table.kept != kept-1 {
			x.t.Error("its message is still there")
		}
		if v := NewView(ctx, x.e); v.Err() == nil {
			x.t.Error("no deadline")
		}
	}},
	{"a message that some look at and one takes", func(x *crowd) {
		var all []*waiter
		for i := range 6 {
			all = append(all, x.probe(mine, 1, purpose(i%2)))
		}
		x.keep(mine, 1)
		for i, w := range all {
			if want := w.to == looks || i == 1; w.ready != want {
				x.t.Errorf("caller %d is woken: %v", i, w.ready)
			}
			x.e.table.unwatch(w)
		}
		x.e.FreeContext(mine)
	}},
}

// What concerns one context takes as many steps however much there is of others.
func TestStepsOfOneContext(t *testing.T) {
	for _, c := range concerning {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{10, 20_000} {
				x := newCrowd(t, n)
				before := x.e.table.steps + x.e.waiting.steps
				c.call(x)
				if steps := x.e.table.steps + x.e.waiting.steps - before; steps > 100 {
					t.Errorf("%d steps among %d others", steps, n)
				}
			}
		})
	}
}

// A view that ends wakes those who wait with it, and looks at no others.
func TestViewKnowsItsCallers(t *testing.T) {
	x := newCrowd(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	v, other := NewView(ctx, x.e), NewView(context.Background(), x.e)
	var all []*waiter
	for i := range 9 {
		w := &waiter{woken: make(chan struct{}, 1), view: [...]*View{v, other, nil}[i%3]}
		x.e.blocked.push(w)
		all = append(all, w)
	}
	x.e.blocked.remove(all[3])
	x.e.blocked.remove(all[4])
	v.fire()
	for i, w := range all {
		if got, want := len(w.woken) == 1, i%3 == 0 && i != 3; got != want {
			t.Errorf("caller %d is woken: %v", i, got)
		}
		x.e.blocked.remove(w)
	}
	if v.first != nil || other.first != nil || x.e.blocked.head != nil {
		t.Error("a list is not empty")
	}
}

// BenchmarkConcerning times the calls that concern one context, among many others.
func BenchmarkConcerning(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		x := newCrowd(b, n)
		for _, c := range concerning {
			if c.name == "poison" {
				continue // for ever: there is only one
			}
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				x.t = b
				for b.Loop() {
					c.call(x)
				}
			})
		}
	}
}
