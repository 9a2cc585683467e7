package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// namedJob is a job of two ranks that know a communicator by the name of world/1.
func namedJob(t *testing.T) []*engine.Engine {
	f := mem.NewFabric(2)
	j := moduletest.NewJob(t, 2, func(rank int) rpi.Module { return f.Module(rank) }, moduletest.Options{
		Config: func(c *engine.Config) {
			c.Name = func(x uint64) (string, bool) { return "world/1", x == ctx }
		},
	})
	t.Cleanup(j.Close)
	return j.Engines
}

// TestNamesCommunicators looks at all texts in which an engine speaks of a communicator.
func TestNamesCommunicators(t *testing.T) {
	e := namedJob(t)
	want := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || strings.Contains(got, "ctx") {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	r, err := e[0].Irecv(1, ctx, 7, bytesType, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(fmt.Sprint(e[0].Pending()), "[Irecv(source 1, tag 7, on world/1, 0 bytes)]")
	want(fmt.Sprint(e[0].Left()), "[Irecv(source 1, tag 7, on world/1, 0 bytes)]")
	done := make(chan error)
	go func() { _, err := e[0].Probe(1, ctx, 8, nil); done <- err }()
	waitUntil(func() bool { return e[0].Blocked() != "" })
	want(e[0].Blocked(), "Probe(source 1, tag 8, on world/1)")
	go func() { done <- e[1].Send(0, ctx, 8, bytesType, nil, engine.Synchronous, nil) }()
	if err := <-done; err != nil { // the probe's: nobody receives the message yet
		t.Fatal(err)
	}
	e[0].CloseGate()
	_, err = e[0].Saved()
	e[0].OpenGate()
	want(fmt.Sprint(err), "rank 1 waits in a send of 0 bytes (tag 8, on world/1) that was not received")
	if _, err := e[0].Recv(1, ctx, 8, bytesType, nil, nil); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := e[1].Send(0, ctx, 7, bytesType, nil, engine.Standard, nil); err != nil {
		t.Error(err)
	}
	if _, err := e[0].Wait(r, nil); err != nil {
		t.Error(err)
	}
}

// TestNamesTeams looks at what a rank says that waits in a turn.
func TestNamesTeams(t *testing.T) {
	e := namedJob(t)
	teams, places := make([]*engine.Team, 2), make([]engine.Place, 2)
	for i := range e {
		var ok bool
		if teams[i], places[i], ok = e[i].OpenTeam(ctx, []int{0, 1}, i); !ok {
			t.Fatal("no boards")
		}
	}
	for i := range e {
		if err := e[i].JoinTeam(teams[i], places); err != nil {
			t.Fatal(err)
		}
		defer e[i].CloseTeam(teams[i])
	}
	done := make(chan error)
	take := func(i int) {
		_, err := e[i].Take(teams[i], &engine.Turn{Tag: 3}, nil)
		done <- err
	}
	go take(0)
	waitUntil(func() bool { return e[0].Blocked() != "" })
	if got := e[0].Blocked(); !strings.HasPrefix(got, "turn 1 of 2 ranks, for the line of rank 1 (tag 3, on world/1)") {
		t.Errorf("%q", got)
	}
	go take(1)
	for range e {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
