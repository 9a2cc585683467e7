package capture

import (
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestComeBack: a Go program that has come back from an image needs of the processor what that needed; one that was started here, or has executed another
// program since, what there is.
func TestComeBack(t *testing.T) {
	v := newVictim(t, testAgent(t))
	g := v.target
	flags := func() []string {
		t.Helper()
		c, err := g.capture(whole.CaptureOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		if err := c.describeProgram(c.PID()); err != nil {
			t.Fatal(err)
		}
		if err := c.describeHost(c.PID()); err != nil {
			t.Fatal(err)
		}
		return c.state.Host.Flags
	}
	here := flags()
	few := []string{"sse2"}
	if slices.Equal(here, few) {
		t.Fatal("a processor with little")
	}
	a := g.agent
	a.CameBack(g.PID, few)
	g.came = a.comebackOf(g.PID)
	if got := flags(); !slices.Equal(got, few) {
		t.Errorf("after a comeback: %v", got)
	}
	g.came.mm = proc.MM{StartStack: 1}
	if got := flags(); !slices.Equal(got, here) {
		t.Errorf("of another program: %v", got)
	}
	a.CameBack(g.PID, few)
	b := a.comebacks.each[g.PID]
	b.start++
	a.comebacks.each[g.PID] = b
	if c := a.comebackOf(g.PID); c.extensions != nil || len(a.comebacks.each) > 0 {
		t.Errorf("of another process: %v", c)
	}
}
