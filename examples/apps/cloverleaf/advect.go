package main

import "math"

// advect moves what is in the cells that have moved back into those of the grid, in one direction and then in the other. Which
// comes first changes from step to step.
func (b *box) advect() error {
	if err := b.exchange(&b.energy1, &b.density1, &b.volumeFlux[0], &b.volumeFlux[1]); err != nil {
		return err
	}
	for sweep := range 2 {
		d := (b.step + sweep) % 2
		b.advectCells(d, sweep == 0)
		if err := b.exchange(&b.density1, &b.energy1, &b.velocity1[0], &b.velocity1[1], &b.massFlux[0], &b.massFlux[1]); err != nil {
			return err
		}
		b.weighCorners(d, sweep == 0)
		b.advectVelocity(d, b.velocity1[0].v)
		b.advectVelocity(d, b.velocity1[1].v)
	}
	return nil
}

// strides returns how far it is from a cell to the next one in direction d, and in the other.
func (b *box) strides(d int) (along, across int) {
	if d == 0 {
		return 1, b.row
	}
	return b.row, 1
}

// more returns what each needs for a number of cells more in direction d, and in the other.
func more(d, along, across int) (x, y int) {
	if d == 0 {
		return along, across
	}
	return across, along
}

// limited is how much a value changes within a cell, so that the result has no new extremes (van Leer): before is the
// change on the side that the gas comes from, after that on the other, and part is the part of the cell that leaves.
func limited(before, after, part float64) float64 {
	if before*after <= 0 {
		return 0
	}
	before, abs := math.Abs(before), math.Abs(after)
	return math.Copysign(min(before, abs, ((1+part)*before+(2-part)*abs)/6), after)
}

// advectCells moves mass and energy in direction d. In the first sweep a cell has its volume after the step; in the second one
// what the other direction has taken is gone.
func (b *box) advectCells(d int, first bool) {
	s, t := b.strides(d)
	flux, other := b.volumeFlux[d].v, b.volumeFlux[1-d].v
	density, energy, mass := b.density1.v, b.energy1.v, b.massFlux[d].v
	before := func(i int) float64 {
		v := b.volume + flux[i+s] - flux[i]
		if first {
			v += other[i+t] - other[i]
		}
		return v
	}
	x, y := more(d, 1, 0)
	b.each(x, y, func(i, _, _ int) {
		from, back := i, s // the cell that the gas comes from, and from there to the one behind it
		if flux[i] > 0 {
			from, back = i-s, -s
		}
		volume := before(from)
		part := math.Abs(flux[i]) / volume
		value := func(v []float64, leaves float64) float64 {
			return v[from] + (1-leaves)*limited(v[from]-v[from+back], v[from-back]-v[from], part)
		}
		mass[i] = flux[i] * value(density, part)
		b.energyFlux[i] = mass[i] * value(energy, math.Abs(mass[i])/(density[from]*volume))
	})
	b.each(0, 0, func(i, _, _ int) {
		volume := before(i)
		had := density[i] * volume
		has := had + mass[i] - mass[i+s]
		energy[i] = (energy[i]*had + b.energyFlux[i] - b.energyFlux[i+s]) / has
		density[i] = has / (volume + flux[i] - flux[i+s])
	})
}

// weighCorners makes the masses that belong to the corners, before and after the sweep, and what of them passes between two
// corners.
func (b *box) weighCorners(d int, first bool) {
	s, t := b.strides(d)
	mass, other, density := b.massFlux[d].v, b.volumeFlux[1-d].v, b.density1.v
	after := func(i int) float64 { // mass of a cell
		if first {
			return density[i] * (b.volume + other[i+t] - other[i])
		}
		return density[i] * b.volume
	}
	for l := 1; l <= b.n[1-d]+1; l++ {
		base := b.at(1, 1) + (l-1)*t
		for k := -1; k <= b.n[d]+2; k++ {
			i := base + (k-1)*s
			b.nodeFlux[i] = .25 * (mass[i-t] + mass[i] + mass[i+s-t] + mass[i+s])
		}
		for k := 0; k <= b.n[d]+2; k++ {
			i := base + (k-1)*s
			b.massAfter[i] = .25 * (after(i-t) + after(i) + after(i-s-t) + after(i-s))
			b.massBefore[i] = b.massAfter[i] - b.nodeFlux[i-s] + b.nodeFlux[i]
		}
	}
}

// advectVelocity moves momentum in direction d.
func (b *box) advectVelocity(d int, v []float64) {
	s, t := b.strides(d)
	for l := 1; l <= b.n[1-d]+1; l++ {
		base := b.at(1, 1) + (l-1)*t
		for k := 0; k <= b.n[d]+1; k++ {
			i := base + (k-1)*s
			from, back := i, -s
			if b.nodeFlux[i] < 0 {
				from, back = i+s, s
			}
			part := math.Abs(b.nodeFlux[i]) / b.massBefore[from]
			b.momentumFlux[i] = b.nodeFlux[i] * (v[from] + (1-part)*limited(v[from]-v[from+back], v[from-back]-v[from], part))
		}
		for k := 1; k <= b.n[d]+1; k++ {
			i := base + (k-1)*s
			v[i] = (v[i]*b.massBefore[i] + b.momentumFlux[i-s] - b.momentumFlux[i]) / b.massAfter[i]
		}
	}
}
