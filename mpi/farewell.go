package mpi

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// Messages and ranks in Finalize. Such a rank sends nothing any more, and begins no receive, so whoever waits for it waits in vain. A
// rank with a call that has waited for farewellAfter asks whom it waits for. The other's watch answers once that rank is in
// Finalize: at once, or whenever that will be. The answer is a message, and so it comes behind all messages of that rank. What
// still waits for it then ends with ErrFinalized. Nothing of this happens while messages flow.
//
//	question tag 2, answer tag 3, bytes: incarnation u64

const (
	tagQuestion   = 2
	tagAnswer     = 3
	farewellAfter = time.Second
)

// farewells are what a rank's watch knows of who is in Finalize.
type farewells struct {
	mu    sync.Mutex
	asked map[int]bool // by rank of the world; of the watch's goroutine alone
	gone  map[int]bool // ranks that have answered
	asks  []int        // who wants to know of this rank
}

// take returns who wants to know of this rank, for an answer.
func (f *farewells) take() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.asks
	f.asks = nil
	return all
}

// has reports whether a rank has answered.
func (f *farewells) has(r int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone[r]
}

// hear takes a question or an answer of the present incarnation.
func (f *farewells) hear(s engine.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Tag == tagQuestion {
		f.asks = append(f.asks, s.Source)
		return
	}
	if f.gone == nil {
		f.gone = map[int]bool{}
	}
	f.gone[s.Source] = true
}

// users reports whether a context is for messages of the program.
func (w *watch) users(ctx uint64) bool {
	if ctx&1 != 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.comms[ctx]
	return x != nil && !x.c.side
}

// farewell asks whom the rank waits for, answers who has asked, and ends what waits for ranks that have answered.
func (w *watch) farewell() {
	f := &w.farewells
	if f.asked == nil {
		f.asked = map[int]bool{}
	}
	if w.env.ended.Load() || w.env.leaving.Load() {
		for _, r := range f.take() {
			_ = w.sayBorn(r, tagAnswer) // a rank that does not take it has other troubles
		}
	}
	a := w.env.eng.Awaits(farewellAfter, w.users)
	for _, ctx := range a.Contexts {
		a.Peers = append(a.Peers, w.others(ctx)...)
	}
	for _, r := range a.Peers {
		if r != w.env.job.Rank && !f.asked[r] {
			f.asked[r] = w.sayBorn(r, tagQuestion) == nil
		}
	}
	for _, r := range a.Peers {
		if f.has(r) {
			w.env.eng.Finalized(r, false, w.users)
		}
	}
	for _, ctx := range a.Contexts {
		w.endAny(ctx)
	}
}

// endAny ends waits for any source on a communicator whose other ranks are all in Finalize. A rank may send to itself, from
// another goroutine. So it is done only where no other goroutine of the program does anything.
func (w *watch) endAny(ctx uint64) {
	others := w.others(ctx)
	if len(others) == 0 || slices.ContainsFunc(others, func(r int) bool { return !w.farewells.has(r) }) {
		return
	}
	dump := waitreport.Dump()
	calls := 0
	for _, c := range waitreport.Calls(dump) {
		if c.Site != "" {
			calls++
		}
	}
	if calls == 1 && waitreport.Active(dump) == 0 {
		w.env.eng.Finalized(others[0], true, func(c uint64) bool { return c == ctx })
	}
}

// others returns the ranks of the world that may send in a context, without this one.
func (w *watch) others(ctx uint64) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.comms[ctx]; x != nil {
		return slices.DeleteFunc(x.c.members(), func(r int) bool { return r == w.env.job.Rank })
	}
	return nil
}

func (w *watch) sayBorn(world int, tag int32) error {
	return w.say(world, tag, &basics[reflect.Uint8], binary.NativeEndian.AppendUint64(nil, w.born), sayBriefly)
}

// unreceivedShown is how many of the messages that a rank has not received are described.
const unreceivedShown = 3

// sayUnreceived tells the launcher what this rank has not received. All ranks are in Finalize.
func (e *env) sayUnreceived() error {
	n, first := e.eng.Unreceived(unreceivedShown, e.watch.users)
	if n == 0 {
		return nil
	}
	return e.job.Unreceived(n, first)
}
