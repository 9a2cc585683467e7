//go:build !gorun_nocr

package engine_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// A rank that goes on after a restart, before another has its lines on its new board again, is woken
// when they are there.
func TestBoardsThatComeLater(t *testing.T) {
	const n = 2
	e := memEngines(t, n, true)
	teams := joinTeam(t, e, ctx)
	turn := engine.Turn{Need: engine.FromOne, One: 1, Tag: 7}
	if _, err := e[1].Take(teams[1], &turn, nil); err != nil {
		t.Fatal(err)
	}
	cut(t, e)
	modules := startModules(t, e, networks(n)["mem"])
	if err := e[0].Restarted(modules[0], nil); err != nil {
		t.Fatal(err)
	}
	e[0].OpenGate()
	taken := make(chan error)
	go func() {
		_, err := e[0].Take(teams[0], &turn, nil)
		taken <- err
	}()
	waitUntil(func() bool { return modules[1][0].(shared.Boards).Asleep(0) })
	if err := e[1].Restarted(modules[1], nil); err != nil {
		t.Fatal(err)
	}
	e[1].OpenGate()
	if err := <-taken; err != nil {
		t.Error(err)
	}
	for _, e := range e {
		e.Close()
	}
}

// Rank 0 posts the last line of a turn and cannot know, as it hears later of that of
// rank 1, whose board it does not reach: it wakes rank 2 all the same, which sleeps
// until there is that line.
func TestUnreachedMemberWakes(t *testing.T) {
	const n, turns = 3, 200
	e := memEngines(t, n, true)
	teams := joinTeam(t, e, ctx)
	cut(t, e)
	modules := startModules(t, e, networks(n)["mem, tcp"])
	for i := range e {
		w := modules[i][0].(rpi.Waiter)
		if i < 2 {
			w = brief{w}
		}
		if err := e[i].Restarted(modules[i], w); err != nil {
			t.Fatal(err)
		}
	}
	open(e)
	for turn := range turns {
		taken := make(chan error)
		take := func(me int) {
			_, err := e[me].Take(teams[me], &engine.Turn{Tag: int32(turn)}, nil)
			taken <- err
		}
		go take(1)
		waitUntil(func() bool { return e[1].Blocked() != "" })
		go take(2)
		waitUntil(func() bool { return modules[0][0].(shared.Boards).Asleep(2) })
		go take(0)
		for range n {
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range e {
		e.Close()
	}
}
