package main

import (
	"errors"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// ghosts is how many layers of the neighbours' cells are around a rank's own. Two would do for cells; corners and faces
// have one more at the upper ends, which is the first of the neighbour's.
const ghosts = 3

// field is a value of each cell, corner or face, with ghosts. A corner or face has the number of the cell above it.
type field struct {
	v     []float64
	edges [2]mirror // at the ends of the box, in the directions x and y
	halo  *mpi.Halo[float64]
}

// mirror tells how a field goes on beyond the ends of the box. Ghost g is sign times its image. From the lower end, where
// the first cell is 1, their numbers add up to low. From the upper one, after cell n, they add up to 2 n + high.
type mirror struct {
	low, high int
	sign      float64
}

// What is on the ends themselves is on the mirror. What goes along them is mirrored as CloverLeaf does it.
var (
	cell    = mirror{1, 1, 1}
	corner  = mirror{2, 2, 1}
	through = mirror{2, 2, -1} // of a vector in this direction
	beside  = mirror{2, 0, 1}  // of a flux in the other direction
)

// box is a rank's part of the box.
type box struct {
	grid       *mpi.Cart
	n          [2]int // own cells in the directions x and y
	row        int    // from a cell to the one above it
	dx, dy     float64
	ends       [2][2]bool // by direction: the lower and the upper end of the box is here
	step       int
	time, dt   float64
	soundspeed []float64
	volume     float64

	density0, energy0, density1, energy1, pressure, viscosity field
	velocity0, velocity1, volumeFlux, massFlux                [2]field
	energyFlux, nodeFlux, massBefore, massAfter, momentumFlux []float64 // of advection
}

func newBox(grid *mpi.Cart, d deck) (*box, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	bottom, top := app.Range(d.ny, dims[0], at[0])
	left, right := app.Range(d.nx, dims[1], at[1])
	b := &box{grid: grid, n: [2]int{right - left, top - bottom}, row: right - left + 2*ghosts, dx: edge / float64(d.nx), dy: d.height / float64(d.ny), dt: longest}
	b.volume = b.dx * b.dy
	b.ends = [2][2]bool{{left == 0, right == d.nx}, {bottom == 0, top == d.ny}}
	length := b.row * (b.n[1] + 2*ghosts)
	var errs []error
	make1 := func(f *field, x, y mirror) {
		f.v, f.edges = make([]float64, length), [2]mirror{x, y}
		f.halo, err = mpi.NewHalo(grid, f.v, []int{b.n[1] + 2*ghosts, b.row}, ghosts, true)
		errs = append(errs, err)
	}
	for _, f := range []*field{&b.density0, &b.energy0, &b.density1, &b.energy1, &b.pressure, &b.viscosity} {
		make1(f, cell, cell)
	}
	for _, v := range []*[2]field{&b.velocity0, &b.velocity1} {
		make1(&v[0], through, corner)
		make1(&v[1], corner, through)
	}
	for _, v := range []*[2]field{&b.volumeFlux, &b.massFlux} {
		make1(&v[0], through, beside)
		make1(&v[1], beside, through)
	}
	for _, v := range []*[]float64{&b.soundspeed, &b.energyFlux, &b.nodeFlux, &b.massBefore, &b.massAfter, &b.momentumFlux} {
		*v = make([]float64, length)
	}
	b.fill(left, bottom)
	return b, errors.Join(errs...)
}

// fill fills the box: a dense gas in a corner, and a thin one.
func (b *box) fill(left, bottom int) {
	b.each(0, 0, func(i, x, y int) {
		b.density0.v[i], b.energy0.v[i] = .2, 1
		if (float64(left+x)-.5)*b.dx < 5 && (float64(bottom+y)-.5)*b.dy < 2 {
			b.density0.v[i], b.energy0.v[i] = 1, 2.5
		}
	})
}

// register names the state of a rank between two steps.
func (b *box) register(state *cr.Registry) error {
	return errors.Join(state.Register("step", &b.step), state.Register("time", &b.time), state.Register("dt", &b.dt),
		state.Register("density", &b.density0.v), state.Register("energy", &b.energy0.v),
		state.Register("velocity x", &b.velocity0[0].v), state.Register("velocity y", &b.velocity0[1].v))
}

// at returns the index of cell (x, y). The first own one is (1, 1).
func (b *box) at(x, y int) int { return (y+ghosts-1)*b.row + x + ghosts - 1 }

// each calls f for the own cells, and as many more in each direction at the upper ends.
func (b *box) each(moreX, moreY int, f func(i, x, y int)) {
	for y := 1; y <= b.n[1]+moreY; y++ {
		for x := 1; x <= b.n[0]+moreX; x++ {
			f(b.at(x, y), x, y)
		}
	}
}

// exchange fills the ghosts of several fields: of all neighbours, and then those beyond the ends of the box.
func (b *box) exchange(fields ...*field) error {
	borders := make([]mpi.Request, len(fields))
	for i, f := range fields {
		var err error
		if borders[i], err = f.halo.Start(); err != nil {
			return err
		}
	}
	if _, err := mpi.Waitall(borders); err != nil {
		return err
	}
	for _, f := range fields {
		for _, d := range []int{1, 0} {
			b.reflect(f, d)
		}
	}
	return nil
}

// reflect fills the ghosts beyond the ends of the box in one direction.
func (b *box) reflect(f *field, d int) {
	step, across, lines := 1, b.row, b.n[1]+2*ghosts
	if d == 1 {
		step, across, lines = b.row, 1, b.row
	}
	n, m := b.n[d], f.edges[d]
	put := func(ghost, image int) {
		to, from := (ghost+ghosts-1)*step, (image+ghosts-1)*step
		for k := range lines {
			f.v[to+k*across] = m.sign * f.v[from+k*across]
		}
	}
	for k := range 2 {
		if b.ends[d][0] {
			put(-k, m.low+k)
		}
		if b.ends[d][1] {
			first := n + (m.high+2)/2 // the one that is its own image is none
			put(first+k, 2*n+m.high-first-k)
		}
	}
}
