package jobtest_test

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
)

// A rank answers although its engine is held for good, and although its gate is closed.
func TestLookBesideTheEngine(t *testing.T) {
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir()})
	defer c.Stop()
	states := []string{c.Jobs[0].Doing(nil).State}
	inside := c.Jobs[0].Engine.BeginWaits()
	for range 2 { // the first question still waits for the engine when the second comes
		states = append(states, c.Jobs[0].Doing(nil).State)
	}
	inside.End()
	c.Jobs[1].Engine.CloseGate()
	states = append(states, c.Jobs[1].Doing(nil).State)
	c.Jobs[1].Engine.OpenGate()
	for i, want := range []string{waitreport.Computing, "its engine is busy", "its engine is busy", "held by a checkpoint"} {
		if !strings.HasPrefix(states[i], want) {
			t.Errorf("%q", states)
		}
	}
	for c.Jobs[0].Doing(nil).State != waitreport.Computing { // until the first question is over
	}
}
