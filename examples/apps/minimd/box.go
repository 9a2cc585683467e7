package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gorun-mpi/gorun/mpi"
)

type vector [3]float64

// atom is one of a rank's own: where it is, its velocity and the force on it. Its mass is 1.
type atom struct{ X, V, F vector }

// box is a rank's part of the whole.
type box struct {
	grid   *mpi.Cart
	edge   float64 // of the whole box
	lo, hi vector  // this rank's part

	atoms     []atom
	potential float64 // energy of this rank's atoms, in the last forces

	ghosts []vector  // atoms of other ranks that are near, in the order of the swaps
	swaps  [6]swap   // two for each dimension
	near   [][]int32 // of each atom: the atoms and, counted from len(atoms) on, ghosts in reach
}

func newBox(c *mpi.Comm, n int) (*box, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0, 0})
	if err != nil {
		return nil, err
	}
	grid, err := c.Cart(dims, []bool{true, true, true}, false) // a restart finds its state at the same points
	if err != nil {
		return nil, err
	}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	b := &box{grid: grid, edge: float64(n) * math.Cbrt(4/density)}
	for d := range dims {
		b.lo[d], b.hi[d] = b.edge*float64(at[d])/float64(dims[d]), b.edge*float64(at[d]+1)/float64(dims[d])
		if at[d] == dims[d]-1 {
			b.hi[d] = b.edge
		}
		if width := b.edge / float64(dims[d]); width < cutoff+skin {
			return nil, fmt.Errorf("the box of a rank is %.2f wide, less than atoms reach (%.2f): use fewer ranks than %v, or a larger -n", width, cutoff+skin, dims)
		}
	}
	return b, b.neighbours()
}

// melt fills the box with a crystal whose atoms move at random, the same on any number of ranks but for rounding. The
// whole stands still and has the temperature.
func (b *box) melt(n int) error {
	cell := b.edge / float64(n)
	for i := range 4 * n * n * n {
		x := vector{float64(i / 4 % n), float64(i / 4 / n % n), float64(i / 4 / n / n)}
		if corner := i % 4; corner > 0 { // one at the corner, three in the middle of sides
			for d := range x {
				if d != corner-1 {
					x[d] += .5
				}
			}
		}
		mine := true
		for d := range x {
			x[d] *= cell
			mine = mine && b.lo[d] <= x[d] && x[d] < b.hi[d]
		}
		if !mine {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 3))
		b.atoms = append(b.atoms, atom{X: x, V: vector{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}})
	}
	t, err := b.totals()
	if err != nil {
		return err
	}
	if want := float64(4 * n * n * n); t.Atoms != want {
		return fmt.Errorf("the ranks have %v atoms together, not %v", t.Atoms, want)
	}
	for i := range b.atoms {
		for d := range t.Momentum {
			b.atoms[i].V[d] -= t.Momentum[d] / t.Atoms
		}
	}
	if t, err = b.totals(); err != nil {
		return err
	}
	scale := math.Sqrt(temperature * 3 * t.Atoms / (2 * t.Kinetic))
	for i := range b.atoms {
		for d := range b.atoms[i].V {
			b.atoms[i].V[d] *= scale
		}
	}
	return b.forces(true)
}
