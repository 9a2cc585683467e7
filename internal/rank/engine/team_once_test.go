//go:build !gorun_nocr

package engine_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// A rank that puts a turn together after a restart waits for all lines, also for those that it has
// seen before: the board of their writer may not have them yet.
func TestOnceOnBoardsThatComeLater(t *testing.T) {
	const n, k = 3, 8
	for _, c := range []engine.Combiner{nil, sequence{}} {
		e := memEngines(t, n, true)
		teams := joinTeam(t, e, ctx)
		taken := make(chan error, n)
		results := make([][]byte, n)
		take := func(me int) {
			results[me] = make([]byte, n*k)
			_, err := e[me].Take(teams[me], &engine.Turn{Once: true, Combine: c, Send: pattern(k, me+1), Want: k, Len: k, Stride: k, Into: results[me]}, nil)
			taken <- err
		}
		misses := func(me int, rank string) bool {
			e[me].Progress() // who sleeps is not woken by each line
			return strings.Contains(strings.Join(e[me].Pending(), " "), "line of rank "+rank)
		}
		go take(0)
		go take(1)
		waitUntil(func() bool { return misses(0, "2") && misses(1, "2") })
		cut(t, e)
		modules := startModules(t, e, networks(n)["mem"])
		for _, me := range []int{0, 2, 1} {
			if me == 1 { // the last to have its line on its new board
				go take(2)
				waitUntil(func() bool { return len(taken) > 0 || e[2].Blocked() != "" && !misses(0, "2") })
			}
			if err := e[me].Restarted(modules[me], nil); err != nil {
				t.Fatal(err)
			}
			e[me].OpenGate()
		}
		for range n {
			if err := <-taken; err != nil {
				t.Error(err)
			}
		}
		parts := [][]byte{pattern(k, 1), pattern(k, 2), pattern(k, 3)}
		want := bytes.Join(parts, nil)
		if c != nil {
			clear(want)
			c.Combine(want[:k], parts)
		}
		for me := range n {
			if !bytes.Equal(results[me], want) {
				t.Errorf("rank %d: %v, not %v", me, results[me], want)
			}
		}
		for _, e := range e {
			e.Close()
		}
	}
}

// Ranks that take only turns of which others tell the result learn, too, that a member does not
// reach all boards.
func TestOverAfterTurnsToldOf(t *testing.T) {
	const n, turns = 3, 64
	e := memEngines(t, n, false)
	teams := joinTeam(t, e, ctx)
	cut(t, e)
	move(t, e, make([][]rpi.Module, n), networks(n)["tcp"])
	open(e)
	var wg sync.WaitGroup
	for me := range e {
		wg.Go(func() {
			for range turns {
				if _, err := e[me].Take(teams[me], &engine.Turn{}, nil); err != nil {
					t.Errorf("rank %d: %v", me, err)
				}
			}
			if !teams[me].Over() {
				t.Errorf("rank %d: the team goes on", me)
			}
		})
	}
	wg.Wait()
	for _, e := range e {
		e.Close()
	}
}
