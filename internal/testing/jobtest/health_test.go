package jobtest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// Ranks hear that an agent does not answer, and that it does again; a restart makes all healthy.
func TestHealth(t *testing.T) {
	c := jobtest.New(3, jobtest.Options{Dir: t.TempDir()})
	seen := make(chan error, 3)
	goOn := make(chan struct{})
	wait := ranks(c, func(world *mpi.Comm) error {
		sub, err := world.Split(world.Rank()%2, 0)
		if err != nil {
			t.Error(err)
			sub = world
		}
		for _, expect := range []mpi.State{mpi.Healthy, mpi.Suspect, mpi.Healthy, mpi.Suspect, mpi.Healthy} {
			states, changed, err := mpi.Health(sub)
			if err == nil && (len(states) != sub.Size() || slices.ContainsFunc(states, func(s mpi.State) bool { return s != expect })) {
				err = fmt.Errorf("rank %d: %v where all are %v", world.Rank(), states, expect)
			}
			seen <- err
			<-goOn
			<-changed
		}
		return nil
	})
	next := func(change func()) {
		t.Helper()
		for range 3 {
			if err := <-seen; err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			goOn <- struct{}{}
		}
		change()
	}
	silent := func() {
		for range 3 {
			c.Tick()
		}
	}
	if err := c.Revive("mem"); err != nil { // what comes back greets the head, and says what it understands
		t.Fatal(err)
	}
	next(silent)
	next(c.Pong)
	next(silent)
	next(func() {
		if err := c.Revive("mem"); err != nil {
			t.Error(err)
		}
	})
	next(silent)
	if err := wait(); err != nil {
		t.Error(err)
	}
	c.Stop()
}
