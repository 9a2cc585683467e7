// Lulesh follows the blast wave of an explosion at a point (Sedov), after the proxy application LULESH (Karlin, Keasler and
// Neely: LULESH 2.0 Updates and Changes, 2013; Hornung and others: Hydrodynamics Challenge Problem, 2011):
//
//	gorun -np 8 -cr ./examples/apps/lulesh -n 30
//
// An eighth of the problem is a cube of hexahedra that move with the gas. A grid of ranks divides it. What a step sends: the
// forces on the nodes that several ranks have, which are added up by persistent messages (mesh.go), and how velocities
// change in the elements of neighbours (Halo.Start). Nodes move by their forces (motion.go), and then elements have new
// volumes, pressures and energies (material.go).
//
// Energy spreads alike in all directions. For some sizes the number of steps and the energy left at the origin are published:
// the program verifies those, too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 10, "elements along an edge of the cube")
	steps := flag.Int("steps", math.MaxInt, "steps at most")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return lulesh(c, *n, *steps, os.Stdout) })
}

// The cube, the energy at the origin if it has 45 elements along an edge, and when the wave has gone far enough.
const (
	edge   = 1.125
	blast  = 3.948746e7
	usual  = 45
	finish = 1e-2
)

// published are the steps, and the energy at the origin after them, by the elements along an edge.
var published = map[int]struct {
	steps  int
	origin float64
}{5: {72, 7.853665e3}, 10: {231, 2.720531e4}, 30: {932, 2.025075e5}, 45: {1477, 4.234875e5}, 50: {1662, 5.124778e5}, 70: {2402, 9.417145e5}}

// lulesh is the program of one rank.
func lulesh(c *mpi.Comm, n, steps int, out io.Writer) error {
	if n < 1 || steps < 0 {
		return errors.New("-n must be positive, and -steps not negative")
	}
	m, err := newMesh(c, n)
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := m.register(state); err != nil {
		return err
	}
	for m.Step < steps && m.Time < finish {
		if err := state.Point(); err != nil {
			return err
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	end, err := m.totals()
	if err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, %d steps to %.6g: energy %.9g, at the origin %.6e\n", m.dims, m.Step, m.Time, end.energy, end.origin)
	return app.Verdict(c, out, check(n, m.Step, m.Time >= finish, end))
}

// totals are the energies of the whole and at the origin, and the first moments of the energy.
type totals struct {
	energy, origin float64
	moment         vec
}

// check tells whether one direction differs from another, or the end is not the one that is known.
func check(n, steps int, over bool, t totals) error {
	for _, b := range []float64{t.moment.Y, t.moment.Z} {
		if !(math.Abs(b-t.moment.X) <= 1e-9*t.moment.X) {
			return fmt.Errorf("the wave is not the same in all directions: %v", t.moment)
		}
	}
	want, known := published[n]
	switch {
	case !known || !over:
		return nil
	case steps != want.steps:
		return fmt.Errorf("it took %d steps, not %d", steps, want.steps)
	case !(math.Abs(t.origin-want.origin) <= 1e-6*want.origin):
		return fmt.Errorf("the energy at the origin is %.6e, not %.6e", t.origin, want.origin)
	}
	return nil
}
