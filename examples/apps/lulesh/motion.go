package main

import (
	"errors"
	"math"

	"github.com/gorun-mpi/gorun/mpi"
)

// Limits of a step, and what counts as rest.
const (
	never     = 1e20
	shrinks   = 1.1 // a step that could grow by less stays as long
	grows     = 1.2 // at most
	longest   = 1e-2
	atRest    = 1e-7
	hourglass = .03
)

var errVolume = errors.New("an element has no volume any more")

// advance does a step.
func (m *mesh) advance() error {
	m.timestep()
	if err := m.forces(); err != nil {
		return err
	}
	m.move()
	if err := m.deform(); err != nil {
		return err
	}
	if err := m.resist(); err != nil {
		return err
	}
	m.each(func(i, _, _ int, _ [3]int) { m.state(i) })
	return m.limits()
}

// timestep finds out how long the step is, so that the last one ends at the end and is not very short.
func (m *mesh) timestep() {
	if m.Step > 0 {
		next := never
		if m.Courant < next {
			next = m.Courant / 2
		}
		if m.Hydro < next {
			next = m.Hydro * 2 / 3
		}
		if ratio := next / m.Dt; ratio >= 1 && ratio < shrinks {
			next = m.Dt
		} else if ratio > grows {
			next = m.Dt * grows
		}
		m.Dt = min(next, longest)
	}
	left := finish - m.Time
	if left > m.Dt && left < 4*m.Dt/3 {
		left = 2 * m.Dt / 3
	}
	m.Dt = min(m.Dt, left)
	m.Time, m.Step = m.Time+m.Dt, m.Step+1
}

// forces makes the forces on the nodes: pressure on the faces, and what keeps elements from the shapes of hourglasses, which
// change no volume.
func (m *mesh) forces() error {
	clear(m.force)
	var wrong error
	m.each(func(i, node, _ int, _ [3]int) {
		h, v := m.hexahedron(m.place, node), m.hexahedron(m.velocity, node)
		if m.volume[i] <= 0 {
			wrong = errVolume
		}
		inwards, against := h.normals(), h.unbend(&v, m.whole[i]*m.volume[i], hourglass*m.sound[i]*m.whole[i])
		for k, at := range m.corners {
			m.force[node+at] = m.force[node+at].plus(m.pressure[i]+m.q[i], inwards[k]).sub(against[k])
		}
	})
	return errors.Join(wrong, m.addShared())
}

// unbend returns the forces of the four shapes that a velocity has, but what of them moves or stretches the whole (Flanagan and
// Belytschko: A Uniform Strain Hexahedron and Quadrilateral with Orthogonal Hourglass Control, 1981).
func (h *hexahedron) unbend(velocity *hexahedron, volume, stiff float64) (force hexahedron) {
	change := h.volumeChange()
	stiff /= math.Cbrt(volume)
	for _, shape := range shapes {
		var place vec
		for k, f := range shape {
			place = place.plus(f, h[k])
		}
		var bends vec
		for k := range shape {
			shape[k] -= change[k].dot(place) / volume
			bends = bends.plus(shape[k], velocity[k])
		}
		for k, f := range shape {
			force[k] = force[k].plus(stiff*f, bends)
		}
	}
	return force
}

// shapes are those of hourglasses: products of two directions, and of all three.
var shapes = func() (s [4][8]float64) {
	for k := range 8 {
		x, y, z := side[0][k], side[1][k], side[2][k]
		s[0][k], s[1][k], s[2][k], s[3][k] = y*z, x*z, x*y, x*y*z
	}
	return s
}()

// move moves the nodes. Those on the faces at the origin stay there.
func (m *mesh) move() {
	speed := func(v, force, mass float64, fixed bool) float64 {
		if fixed {
			force = 0
		}
		if v += force / mass * m.Dt; math.Abs(v) < atRest {
			return 0
		}
		return v
	}
	m.eachNode(func(i int, at [3]int) {
		fixed := func(d int) bool { return m.first[d]+at[d] == 0 }
		v, f := &m.velocity[i], m.force[i]
		*v = vec{speed(v.X, f.X, m.mass[i], fixed(0)), speed(v.Y, f.Y, m.mass[i], fixed(1)), speed(v.Z, f.Z, m.mass[i], fixed(2))}
		m.place[i] = m.place[i].plus(m.Dt, *v)
	})
}

// deform makes the volumes of elements whose nodes have moved. change has the new ones until state takes them.
func (m *mesh) deform() error {
	var wrong error
	m.each(func(i, node, _ int, _ [3]int) {
		h, v := m.hexahedron(m.place, node), m.hexahedron(m.velocity, node)
		volume := h.volume()
		if volume <= 0 {
			wrong = errVolume
		}
		m.change[i] = volume/m.whole[i] - m.volume[i]
		m.length[i] = h.extent(volume)
		m.gradients(i, node, &h, &v, volume)
		for k := range h {
			h[k] = h[k].plus(-.5*m.Dt, v[k])
		}
		m.compressing[i] = h.divergence(&v)
	})
	return wrong
}

// limits finds out what limits the next step: sound that passes an element, and its compression.
func (m *mesh) limits() error {
	limit := []float64{never, never}
	m.each(func(i, _, _ int, _ [3]int) {
		rate := m.compressing[i]
		if rate == 0 {
			return
		}
		speed2 := m.sound[i] * m.sound[i]
		if rate < 0 {
			speed2 += 256 * m.length[i] * m.length[i] * rate * rate
		}
		limit[0] = min(limit[0], m.length[i]/math.Sqrt(speed2))
		limit[1] = min(limit[1], .1/(math.Abs(rate)+1e-20))
	})
	err := mpi.AllreduceInPlace(m.grid.Comm, limit, mpi.Min)
	m.Courant, m.Hydro = limit[0], limit[1]
	return err
}
