// Minimd follows atoms of a Lennard-Jones fluid, as the program of that name in the Mantevo suite does (Heroux and
// others: Improving Performance via Mini-applications, 2009):
//
//	gorun -np 8 -cr ./examples/apps/minimd -n 32 -steps 1000
//
// A periodic box begins as a crystal (face-centred cubic, density 0.8442, temperature 1.44) and melts. A grid of
// ranks divides it in boxes. Every 20 steps atoms move to the rank whose box they are in, and each rank finds which
// of its atoms its neighbours need as ghosts; in the steps between only the places of ghosts are sent.
//
// Momentum and energy must be conserved, and no atom lost.
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
	n := flag.Int("n", 10, "cells of the crystal along an edge of the box; each has four atoms")
	steps := flag.Int("steps", 100, "steps of time")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return minimd(c, *n, *steps, os.Stdout) })
}

// In units of Lennard and Jones.
const (
	density     = 0.8442
	temperature = 1.44
	dt          = 0.005
	cutoff      = 2.5
	skin        = 0.3 // atoms this much further away are in the lists, too
	every       = 20  // steps from one search for neighbours to the next
)

// minimd is the program of one rank.
func minimd(c *mpi.Comm, n, steps int, out io.Writer) error {
	if n < 1 || steps < 0 {
		return errors.New("-n must be positive, and -steps not negative")
	}
	b, err := newBox(c, n)
	if err != nil {
		return err
	}
	if err := b.melt(n); err != nil {
		return err
	}
	before, err := b.totals()
	if err != nil {
		return err
	}
	state, step := cr.On(c), 0
	if err := errors.Join(state.Register("step", &step), state.Register("atoms", &b.atoms), state.Register("potential", &b.potential)); err != nil {
		return err
	}
	for ; step < steps; step++ {
		search := step%every == 0
		if search { // what is known of neighbours between is not registered
			if err := state.Point(); err != nil {
				return err
			}
		}
		if err := b.step(search); err != nil {
			return err
		}
	}
	after, err := b.totals()
	if err != nil {
		return err
	}
	app.Report(c, out, "%d atoms, %d steps: temperature %.6f, energy %.9f, at first %.9f\n",
		int(after.Atoms), steps, 2*after.Kinetic/(3*after.Atoms), after.energy(), before.energy())
	return app.Verdict(c, out, check(before, after))
}

// step goes on by dt (velocity Verlet).
func (b *box) step(search bool) error {
	for i := range b.atoms {
		a := &b.atoms[i]
		for d := range a.X {
			a.V[d] += dt / 2 * a.F[d]
			a.X[d] += dt * a.V[d]
		}
	}
	if err := b.forces(search); err != nil {
		return err
	}
	for i := range b.atoms {
		a := &b.atoms[i]
		for d := range a.V {
			a.V[d] += dt / 2 * a.F[d]
		}
	}
	return nil
}

// forces computes the forces on all atoms where they are now. If search is true it finds their neighbours anew.
func (b *box) forces(search bool) error {
	if !search {
		if err := b.follow(); err != nil {
			return err
		}
		b.attract()
		return nil
	}
	if err := b.migrate(); err != nil {
		return err
	}
	if err := b.borders(); err != nil {
		return err
	}
	b.find()
	b.attract()
	return nil
}

// totals are sums over all atoms.
type totals struct {
	Atoms, Kinetic, Potential float64
	Momentum                  vector
}

func (t totals) energy() float64 { return (t.Kinetic + t.Potential) / t.Atoms }

func (b *box) totals() (totals, error) {
	s := []float64{float64(len(b.atoms)), 0, b.potential, 0, 0, 0}
	for _, a := range b.atoms {
		for d, v := range a.V {
			s[1] += v * v / 2
			s[3+d] += v
		}
	}
	err := mpi.AllreduceInPlace(b.grid.Comm, s, mpi.Sum)
	return totals{s[0], s[1], s[2], vector(s[3:])}, err
}

// check tells what has not been conserved.
func check(before, after totals) error {
	if after.Atoms != before.Atoms {
		return fmt.Errorf("there were %v atoms and are %v", before.Atoms, after.Atoms)
	}
	for d, p := range after.Momentum {
		if !(math.Abs(p-before.Momentum[d]) <= 1e-10*after.Atoms) {
			return fmt.Errorf("momentum was %v and is %v", before.Momentum, after.Momentum)
		}
	}
	if !(math.Abs(after.energy()-before.energy()) <= 1e-3*math.Abs(before.energy())) {
		return fmt.Errorf("the energy of an atom was %g and is %g", before.energy(), after.energy())
	}
	return nil
}
