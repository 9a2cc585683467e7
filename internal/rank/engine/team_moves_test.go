//go:build !gorun_nocr

package engine_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"pgregory.net/rapid"
)

// aMove takes all ranks to other transports while some are in the midst of a turn, or
// of later ones, that others have not begun.
type aMove struct {
	before []int  // by rank: the turn that it does not begin until all have moved; none: -1
	to     string // a network
	order  []int  // in which the ranks come back
	eager  bool   // each goes on before the next is back
	done   chan struct{}
}

// Turns of all kinds, sizes and strips do what they say wherever moves find them. Those
// that are put together once are the most: what one has told before a move is
// read by others after it.
func TestTurnsModelElsewhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "ranks")
		e := memEngines(t, n, false)
		teams := joinTeam(t, e, ctx)
		most := teams[0].Piece()
		var script []engine.Turn
		for range rapid.IntRange(1, 70).Draw(rt, "turns") {
			x := drawTurn(rt, n, most)
			if rapid.Bool().Draw(rt, "together") {
				x.Need, x.Once, x.Combine = engine.Everybody, true, sequence{}
			}
			script = append(script, x)
		}
		names := slices.Sorted(maps.Keys(networks(n)))
		var moves []*aMove
		for k := range script {
			if rapid.IntRange(0, 19).Draw(rt, "move") > 0 && k != len(script)/2 {
				continue
			}
			m := &aMove{to: rapid.SampledFrom(names).Draw(rt, "to"), eager: rapid.Bool().Draw(rt, "eager"), done: make(chan struct{})}
			for me := range n {
				m.order, m.before = append(m.order, me), append(m.before, -1)
				if rapid.Bool().Draw(rt, "held") {
					m.before[me] = k
				}
			}
			m.order = rapid.Permutation(m.order).Draw(rt, "order")
			moves = append(moves, m)
		}
		var wg sync.WaitGroup
		errs, out := make([]error, n), make([]atomic.Bool, n) // of calls
		for me := range n {
			wg.Go(func() {
				defer out[me].Store(true)
				for k := range script {
					for _, m := range moves {
						if m.before[me] == k {
							out[me].Store(true)
							<-m.done
							out[me].Store(false)
						}
					}
					if errs[me] = play(e[me], teams[me], script[k], me, n, k); errs[me] != nil {
						e[me].Abort(nil)
						return
					}
				}
			})
		}
		modules := make([][]rpi.Module, n)
		for _, m := range moves {
			waitUntil(func() bool {
				for me := range n {
					if !out[me].Load() && e[me].Blocked() == "" {
						return false
					}
				}
				return true
			})
			cut(t, e)
			modules = m.move(t, e, modules)
			close(m.done)
		}
		wg.Wait()
		for _, e := range e {
			e.Close()
		}
		for me, err := range errs {
			if err != nil {
				rt.Errorf("rank %d: %v", me, err)
			}
		}
	})
}

// move moves the ranks, whose gates are closed, and opens these.
func (m *aMove) move(t *testing.T, e []*engine.Engine, was [][]rpi.Module) [][]rpi.Module {
	is := startModules(t, e, networks(len(e))[m.to])
	for _, me := range m.order {
		var w rpi.Waiter
		if len(is[me]) > 1 {
			w = brief{is[me][0].(rpi.Waiter)}
		}
		if err := e[me].Restarted(is[me], w); err != nil {
			t.Fatal(err)
		}
		if m.eager {
			e[me].OpenGate()
		}
	}
	for me := range e {
		if !m.eager {
			e[me].OpenGate()
		}
		for _, mod := range was[me] {
			if err := mod.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	return is
}
