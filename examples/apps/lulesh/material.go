package main

import (
	"math"

	"github.com/gorun-mpi/gorun/mpi"
)

// Of the gas and its artificial viscosity.
const (
	tiny      = 1e-36
	cut       = 1e-7 // energies, pressures and viscosities below are none
	still     = 1e-10
	least     = -1e15
	linear    = .5
	quadratic = 2. / 3
	gas       = 2. / 3 // ratio of heats less 1
)

// gradients makes how the velocity changes in an element along each direction, by its volume.
func (m *mesh) gradients(i, node int, h, v *hexahedron, volume float64) {
	g := m.ghostOf(node)
	edges := [3]vec{h.along(0).times(.25), h.along(1).times(.25), h.along(2).times(.25)}
	for d := range 3 {
		area := edges[(d+1)%3].cross(edges[(d+2)%3])
		m.spread[d].extent[i] = volume / math.Sqrt(area.dot(area)+tiny)
		m.spread[d].v[g] = area.dot(v.along(d)) * .25 / (volume + tiny)
	}
}

// ghostOf returns where the element with that first node is in arrays with ghosts.
func (m *mesh) ghostOf(node int) int {
	row, plane := m.n[0]+1, (m.n[0]+1)*(m.n[1]+1)
	return m.ghost(node%row, node%plane/row, node/plane)
}

// resist makes the coefficients of the artificial viscosity. It is smaller where the velocity changes as it does in both
// neighbours: that is no shock (Christensen: Godunov Methods on a Staggered Mesh, 1991).
func (m *mesh) resist() error {
	var borders [3]mpi.Request
	for d := range borders {
		var err error
		if borders[d], err = m.spread[d].halo.Start(); err != nil {
			return err
		}
	}
	if _, err := mpi.Waitall(borders[:]); err != nil {
		return err
	}
	steps := [3]int{1, m.n[0] + 2, (m.n[0] + 2) * (m.n[1] + 2)}
	m.each(func(i, _, g int, at [3]int) {
		m.linear[i], m.quadratic[i] = 0, 0
		if m.compressing[i] > 0 {
			return
		}
		density := 1 / (m.volume[i] + m.change[i])
		for d := range 3 {
			own := m.spread[d].v[g]
			before, after := m.spread[d].v[g-steps[d]], m.spread[d].v[g+steps[d]]
			if m.first[d]+at[d] == 0 {
				before = own // a mirror
			}
			if m.last[d] && at[d] == m.n[d]-1 {
				after = 0 // nothing holds it
			}
			by := 1 / (own + tiny)
			before, after = before*by, after*by
			smooth := min(max(min(.5*(before+after), 2*before, 2*after), 0), 1)
			jump := min(own*m.spread[d].extent[i], 0)
			m.linear[i] -= linear * density * jump * (1 - smooth)
			m.quadratic[i] += quadratic * density * jump * jump * (1 - smooth*smooth)
		}
	})
	return nil
}

// state makes energy, pressure, viscosity and the speed of sound of an element that has a new volume: by predictions for the
// middle of the step and its end.
func (m *mesh) state(i int) {
	change := m.change[i]
	volume := m.volume[i] + change
	half := volume - change/2
	viscosity := func(energy, pressure, volume float64) float64 {
		if change > 0 {
			return 0
		}
		return speed(energy, pressure, volume)*m.linear[i] + m.quadratic[i]
	}
	before := m.pressure[i] + m.q[i]
	e := max(m.energy[i]-.5*change*before, least)
	pHalf := pressure(e, half)
	qHalf := viscosity(e, pHalf, half)
	e = bounded(e + .5*change*(3*before-4*(pHalf+qHalf)))
	p := pressure(e, volume)
	e = bounded(e - (7*before-8*(pHalf+qHalf)+p+viscosity(e, p, volume))*change/6)
	p = pressure(e, volume)
	q := viscosity(e, p, volume)
	if math.Abs(q) < cut {
		q = 0
	}
	m.energy[i], m.pressure[i], m.q[i], m.sound[i] = e, p, q, speed(e, p, volume)
	if m.volume[i] = volume; math.Abs(volume-1) < still {
		m.volume[i] = 1
	}
}

func bounded(energy float64) float64 {
	if math.Abs(energy) < cut {
		return 0
	}
	return max(energy, least)
}

func pressure(energy, volume float64) float64 {
	if p := gas / volume * energy; p >= cut {
		return p
	}
	return 0
}

// speed is that of sound.
func speed(energy, pressure, volume float64) float64 {
	square := gas*energy + volume*volume*gas/volume*pressure
	if square <= .1111111e-36 {
		return .3333333e-18
	}
	return math.Sqrt(square)
}
