package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// mesh is a rank's part of the cube.
type mesh struct {
	grid  *mpi.Cart
	dims  []int
	first [3]int // its first element in the cube, in the directions x, y and z
	n     [3]int // elements
	last  [3]bool
	clock
	nodes
	elements
	sharing [3]sharing
	corners [8]int // from the first node of an element to its nodes
}

// clock is what all ranks know alike.
type clock struct {
	Step           int
	Time, Dt       float64
	Courant, Hydro float64 // limits of the next step
}

// nodes are the corners of the elements. Nodes on the faces between ranks are of all of them.
type nodes struct {
	place, velocity, force []vec
	mass                   []float64
}

// elements have what a step goes on from, and what it needs on the way.
type elements struct {
	energy, pressure, q, volume, sound []float64 // volume: relative to the first one
	whole                              []float64 // the first volume, and so the mass: the density is 1
	change, compressing, length        []float64 // of the relative volume; rate; extent
	linear, quadratic                  []float64 // coefficients of the artificial viscosity q
	spread                             [3]gradient
}

// gradient is how velocity changes along a direction, with the neighbours' elements around, and the extent of an element there.
type gradient struct {
	v      []float64
	halo   *mpi.Halo[float64]
	extent []float64
}

func newMesh(c *mpi.Comm, n int) (*mesh, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0, 0})
	if err != nil {
		return nil, err
	}
	if dims[0] > n {
		return nil, fmt.Errorf("%d elements along an edge cannot be divided among %v ranks", n, dims)
	}
	grid, err := c.Cart(dims, []bool{false, false, false}, false) // a restart finds its state at the same points
	if err != nil {
		return nil, err
	}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	m := &mesh{grid: grid, dims: dims}
	for d := range 3 { // x runs fastest, and is the last dimension of the grid
		lo, hi := app.Range(n, dims[2-d], at[2-d])
		m.first[d], m.n[d], m.last[d] = lo, hi-lo, hi == n
	}
	for k := range m.corners {
		m.corners[k] = m.node(corner(k, 0), corner(k, 1), corner(k, 2))
	}
	if err := m.allocate(); err != nil {
		return nil, err
	}
	return m, m.begin(n)
}

// node and element return indices, and ghost that of an element in an array with ghosts.
func (m *mesh) node(x, y, z int) int    { return (z*(m.n[1]+1)+y)*(m.n[0]+1) + x }
func (m *mesh) element(x, y, z int) int { return (z*m.n[1]+y)*m.n[0] + x }
func (m *mesh) ghost(x, y, z int) int   { return ((z+1)*(m.n[1]+2)+y+1)*(m.n[0]+2) + x + 1 }

func (m *mesh) allocate() (err error) {
	points := (m.n[0] + 1) * (m.n[1] + 1) * (m.n[2] + 1)
	m.place, m.velocity, m.force, m.mass = make([]vec, points), make([]vec, points), make([]vec, points), make([]float64, points)
	for _, v := range []*[]float64{&m.energy, &m.pressure, &m.q, &m.volume, &m.sound, &m.whole, &m.change, &m.compressing, &m.length,
		&m.linear, &m.quadratic, &m.spread[0].extent, &m.spread[1].extent, &m.spread[2].extent} {
		*v = make([]float64, m.n[0]*m.n[1]*m.n[2])
	}
	around := []int{m.n[2] + 2, m.n[1] + 2, m.n[0] + 2}
	for d := range 3 {
		g := &m.spread[d]
		g.v = make([]float64, around[0]*around[1]*around[2])
		if g.halo, err = mpi.NewHalo(m.grid, g.v, around, 1, false); err != nil {
			return err
		}
		if err := m.share(d); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the cube before the explosion.
func (m *mesh) begin(n int) error {
	m.eachNode(func(i int, at [3]int) {
		place := func(d int) float64 { return edge * float64(m.first[d]+at[d]) / float64(n) }
		m.place[i] = vec{place(0), place(1), place(2)}
	})
	m.each(func(i, node, _ int, _ [3]int) {
		h := m.hexahedron(m.place, node)
		m.volume[i], m.whole[i] = 1, h.volume()
		for _, k := range m.corners {
			m.force[node+k].X += m.whole[i] / 8
		}
	})
	if err := m.addShared(); err != nil {
		return err
	}
	for i := range m.mass {
		m.mass[i] = m.force[i].X
	}
	scale := float64(n) / usual
	origin := blast * scale * scale * scale
	if m.first == [3]int{} {
		m.energy[0] = origin
	}
	width := edge / float64(n)
	m.clock = clock{Dt: .5 * width / math.Sqrt(2*origin), Courant: never, Hydro: never}
	return nil
}

// register names the state of a rank between two steps.
func (m *mesh) register(state *cr.Registry) error {
	return errors.Join(state.Register("clock", &m.clock), state.Register("place", &m.place), state.Register("velocity", &m.velocity),
		state.Register("energy", &m.energy), state.Register("pressure", &m.pressure), state.Register("q", &m.q),
		state.Register("volume", &m.volume), state.Register("sound", &m.sound))
}

// each calls f for each element, with its first node and its place in arrays with ghosts.
func (m *mesh) each(f func(i, node, ghost int, at [3]int)) {
	for z := range m.n[2] {
		for y := range m.n[1] {
			for x := range m.n[0] {
				f(m.element(x, y, z), m.node(x, y, z), m.ghost(x, y, z), [3]int{x, y, z})
			}
		}
	}
}

func (m *mesh) eachNode(f func(i int, at [3]int)) {
	for z := range m.n[2] + 1 {
		for y := range m.n[1] + 1 {
			for x := range m.n[0] + 1 {
				f(m.node(x, y, z), [3]int{x, y, z})
			}
		}
	}
}

// sharing are the nodes that a rank has in common with its neighbours in a direction, below and above.
type sharing struct {
	at         [2][]int // indices; none without a neighbour
	sent, got  [2][]vec
	persistent []*mpi.Persistent
	requests   []mpi.Request
}

// share prepares what is sent in direction d.
func (m *mesh) share(d int) error {
	s := &m.sharing[d]
	below, above, err := m.grid.Shift(2-d, 1)
	if err != nil {
		return err
	}
	for side, peer := range []int{below, above} {
		if peer == mpi.ProcNull {
			continue
		}
		m.eachNode(func(i int, at [3]int) {
			if at[d] == side*m.n[d] {
				s.at[side] = append(s.at[side], i)
			}
		})
		s.sent[side], s.got[side] = make([]vec, len(s.at[side])), make([]vec, len(s.at[side]))
		send, err1 := mpi.SendInit(m.grid.Comm, s.sent[side], peer, d)
		recv, err2 := mpi.RecvInit(m.grid.Comm, s.got[side], peer, d)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		s.persistent = append(s.persistent, recv, send)
	}
	s.requests = make([]mpi.Request, len(s.persistent))
	return nil
}

// addShared adds up the forces on nodes that several ranks have, in one direction after the other: so what ranks share
// across an edge or a corner arrives, too. Each adds the same two numbers, so all have the same sum.
func (m *mesh) addShared() error {
	for d := range m.sharing {
		s := &m.sharing[d]
		for side, at := range s.at {
			for k, i := range at {
				s.sent[side][k] = m.force[i]
			}
		}
		if err := mpi.Startall(s.persistent, s.requests); err != nil {
			return err
		}
		if _, err := mpi.Waitall(s.requests); err != nil {
			return err
		}
		for side, at := range s.at {
			for k, i := range at {
				m.force[i] = m.force[i].add(s.got[side][k])
			}
		}
	}
	return nil
}

// totals returns the sums over the cube.
func (m *mesh) totals() (totals, error) {
	sum := make([]float64, 5)
	m.each(func(i, _, _ int, at [3]int) {
		e := m.energy[i] * m.whole[i]
		sum[0] += e
		for d := range 3 {
			sum[2+d] += e * (float64(m.first[d]+at[d]) + .5)
		}
	})
	if m.first == [3]int{} {
		sum[1] = m.energy[0]
	}
	err := mpi.AllreduceInPlace(m.grid.Comm, sum, mpi.Sum)
	return totals{sum[0], sum[1], vec{sum[2], sum[3], sum[4]}}, err
}
