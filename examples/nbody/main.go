// Nbody follows stars that attract each other, all of them each:
//
//	gorun -np 4 -cr ./examples/nbody -n 4000 -steps 100
//
// The stars of a rank go round the ring of all ranks. While they are on their way to the next, their attraction is
// computed. Momentum is conserved but for rounding, and energy but for the error of the leapfrog.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 1000, "stars")
	steps := flag.Int("steps", 100, "steps of time")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return nbody(c, *n, *steps, os.Stdout) })
}

const (
	dt       = 1e-3
	softness = .05 * .05 // square of the distance within which the attraction does not grow
)

type vector [3]float64

// star is one of the bodies. All have the same mass, and together 1.
type star struct{ X, V, A vector }

// galaxy is a rank's stars.
type galaxy struct {
	c             *mpi.Comm
	n             int // stars of all ranks
	stars         []star
	potential     float64  // energy of the last forces
	visitors, out []vector // where stars of other ranks are; of equal length
}

// nbody is the program of one rank.
func nbody(c *mpi.Comm, n, steps int, out io.Writer) error {
	if n < 2 || steps < 0 {
		return errors.New("-n must be 2 or more, and -steps not negative")
	}
	g, err := newGalaxy(c, n)
	if err != nil {
		return err
	}
	before, err := g.totals()
	if err != nil {
		return err
	}
	state, step := cr.On(c), 0
	if err := errors.Join(state.Register("step", &step), state.Register("stars", &g.stars), state.Register("potential", &g.potential)); err != nil {
		return err
	}
	for ; step < steps; step++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := g.step(); err != nil {
			return err
		}
	}
	after, err := g.totals()
	if err != nil {
		return err
	}
	app.Report(c, out, "energy %.9g, at first %.9g; momentum %.1e\n", after[3], before[3], math.Hypot(math.Hypot(after[0], after[1]), after[2]))
	return app.Verdict(c, out, check(before, after))
}

// newGalaxy puts the stars into a ball, with small velocities that add up to nothing.
func newGalaxy(c *mpi.Comm, n int) (*galaxy, error) {
	lo, hi := app.Range(n, c.Size(), c.Rank())
	g := &galaxy{c: c, n: n, stars: make([]star, hi-lo), visitors: make([]vector, n/c.Size()+1), out: make([]vector, n/c.Size()+1)}
	var sum vector
	for i := range g.stars {
		s, r := &g.stars[i], rand.New(rand.NewPCG(uint64(lo+i), 2))
		for d := range s.X {
			s.X[d], s.V[d] = r.NormFloat64()/2, r.NormFloat64()/2
			sum[d] += s.V[d]
		}
	}
	if err := mpi.AllreduceInPlace(c, sum[:], mpi.Sum); err != nil {
		return nil, err
	}
	for i := range g.stars {
		for d := range sum {
			g.stars[i].V[d] -= sum[d] / float64(n)
		}
	}
	return g, g.attract()
}

// step goes on by dt (leapfrog: half a kick, a drift, half a kick).
func (g *galaxy) step() error {
	for i := range g.stars {
		s := &g.stars[i]
		for d := range s.X {
			s.V[d] += dt / 2 * s.A[d]
			s.X[d] += dt * s.V[d]
		}
	}
	err := g.attract()
	for i := range g.stars {
		s := &g.stars[i]
		for d := range s.X {
			s.V[d] += dt / 2 * s.A[d]
		}
	}
	return err
}

// attract computes the accelerations by all stars of all ranks.
func (g *galaxy) attract() error {
	here := g.visitors[:len(g.stars)]
	for i := range g.stars {
		here[i], g.stars[i].A = g.stars[i].X, vector{}
	}
	g.potential = 0
	size, rank := g.c.Size(), g.c.Rank()
	for hop := range size {
		if hop == size-1 { // all have been everywhere
			g.attractedBy(here, hop == 0)
			break
		}
		room := g.out[:cap(g.out)]
		r, err := mpi.Isendrecv(g.c, here, (rank+1)%size, 0, room, (rank+size-1)%size, 0)
		if err != nil {
			return err
		}
		g.attractedBy(here, hop == 0) // the library only reads what it sends, and so may the program
		st, err := r.Wait()
		if err != nil {
			return err
		}
		g.visitors, g.out = g.out, g.visitors
		here = room[:mpi.CountOf[vector](st)]
	}
	return nil
}

// attractedBy adds what the stars at these places do. own: they are the rank's own, and none attracts itself.
func (g *galaxy) attractedBy(places []vector, own bool) {
	mass := 1 / float64(g.n)
	for i := range g.stars {
		s := &g.stars[i]
		for j, x := range places {
			if own && i == j {
				continue
			}
			to := vector{x[0] - s.X[0], x[1] - s.X[1], x[2] - s.X[2]}
			near := 1 / math.Sqrt(to[0]*to[0]+to[1]*to[1]+to[2]*to[2]+softness)
			g.potential -= mass * mass * near / 2
			for d := range to {
				s.A[d] += mass * near * near * near * to[d]
			}
		}
	}
}

// totals returns the momentum and the energy of all stars.
func (g *galaxy) totals() ([4]float64, error) {
	mass, sum := 1/float64(g.n), [4]float64{3: g.potential}
	for _, s := range g.stars {
		for d, v := range s.V {
			sum[d] += mass * v
			sum[3] += mass * v * v / 2
		}
	}
	return sum, mpi.AllreduceInPlace(g.c, sum[:], mpi.Sum)
}

// check tells what has not been conserved.
func check(before, after [4]float64) error {
	for d := range 3 {
		if !(math.Abs(after[d]-before[d]) <= 1e-12) {
			return fmt.Errorf("momentum was %v and is %v", before[:3], after[:3])
		}
	}
	if !(math.Abs(after[3]-before[3]) <= 1e-3*math.Abs(before[3])) {
		return fmt.Errorf("energy was %g and is %g", before[3], after[3])
	}
	return nil
}
