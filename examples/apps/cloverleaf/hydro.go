package main

import (
	"math"

	"github.com/gorun-mpi/gorun/mpi"
)

// Of a step of time: how much longer it may be than the last, its longest, and which part of what a wave, the gas, and a cell
// that becomes larger need.
const (
	rise    = 1.5
	longest = .04
	safe    = .7
	safeGas = .5
	tiny    = 1e-16
	gamma   = 1.4
)

// advance does a step.
func (b *box) advance() error {
	if err := b.timestep(); err != nil {
		return err
	}
	b.expand(.5*b.dt, &b.velocity0)
	b.idealGas(b.density1.v, b.energy1.v)
	if err := b.exchange(&b.pressure); err != nil {
		return err
	}
	b.accelerate()
	mean := b.meanVelocity()
	b.expand(b.dt, mean)
	b.fluxes(mean)
	if err := b.advect(); err != nil {
		return err
	}
	for _, f := range [][2]*field{{&b.density0, &b.density1}, {&b.energy0, &b.energy1}, {&b.velocity0[0], &b.velocity1[0]}, {&b.velocity0[1], &b.velocity1[1]}} {
		copy(f[0].v, f[1].v)
	}
	b.step, b.time = b.step+1, b.time+b.dt
	return nil
}

// timestep finds out how long the step is.
func (b *box) timestep() error {
	b.idealGas(b.density0.v, b.energy0.v)
	if err := b.exchange(&b.pressure, &b.energy0, &b.density0, &b.velocity0[0], &b.velocity0[1]); err != nil {
		return err
	}
	b.resist()
	if err := b.exchange(&b.viscosity); err != nil {
		return err
	}
	dt := min(b.dt*rise, longest)
	u, v := b.velocity0[0].v, b.velocity0[1].v
	b.each(0, 0, func(i, _, _ int) {
		c := math.Sqrt(b.soundspeed[i]*b.soundspeed[i] + 2*b.viscosity.v[i]/b.density0.v[i])
		dt = min(dt, safe*min(b.dx, b.dy)/max(c, tiny))
		left, right := (u[i]+u[i+b.row])*b.dy, (u[i+1]+u[i+1+b.row])*b.dy
		low, high := (v[i]+v[i+1])*b.dx, (v[i+b.row]+v[i+1+b.row])*b.dx
		dt = min(dt, safeGas*2*b.volume/max(math.Abs(left), math.Abs(right), tiny*b.volume), safeGas*2*b.volume/max(math.Abs(low), math.Abs(high), tiny*b.volume))
		if grows := (right - left + high - low) / (2 * b.volume); grows < -tiny {
			dt = min(dt, -safe/grows)
		}
	})
	var err error
	b.dt, err = mpi.AllreduceValue(b.grid.Comm, dt, mpi.Min)
	return err
}

// idealGas makes pressure and the speed of sound.
func (b *box) idealGas(density, energy []float64) {
	b.each(0, 0, func(i, _, _ int) {
		b.pressure.v[i] = (gamma - 1) * density[i] * energy[i]
		b.soundspeed[i] = math.Sqrt(gamma * b.pressure.v[i] / density[i])
	})
}

// resist makes the artificial viscosity, of cells that are compressed.
func (b *box) resist() {
	p, u, v := b.pressure.v, b.velocity0[0].v, b.velocity0[1].v
	b.each(0, 0, func(i, _, _ int) {
		up := i + b.row
		du, dv := u[i+1]+u[up+1]-u[i]-u[up], v[up]+v[up+1]-v[i]-v[i+1]
		shear := .5*(u[up]+u[up+1]-u[i]-u[i+1])/b.dy + .5*(v[i+1]+v[up+1]-v[i]-v[up])/b.dx
		px, py := (p[i+1]-p[i-1])/(2*b.dx), (p[up]-p[i-b.row])/(2*b.dy)
		limiter := (.5*du/b.dx*px*px + .5*dv/b.dy*py*py + shear*px*py) / max(px*px+py*py, tiny)
		b.viscosity.v[i] = 0
		if limiter > 0 || b.dx*du+b.dy*dv >= 0 {
			return
		}
		px, py = math.Copysign(max(tiny, math.Abs(px)), px), math.Copysign(max(tiny, math.Abs(py)), py)
		g := math.Hypot(px, py)
		length := min(math.Abs(b.dx*g/px), math.Abs(b.dy*g/py))
		b.viscosity.v[i] = 2 * b.density0.v[i] * length * length * limiter * limiter
	})
}

// expand makes density and energy of the time by which the cells have moved with the gas.
func (b *box) expand(dt float64, velocity *[2]field) {
	u, v := velocity[0].v, velocity[1].v
	b.each(0, 0, func(i, _, _ int) {
		up := i + b.row
		grows := .5 * dt * (b.dy*(u[i+1]+u[up+1]-u[i]-u[up]) + b.dx*(v[up]+v[up+1]-v[i]-v[i+1]))
		b.energy1.v[i] = b.energy0.v[i] - (b.pressure.v[i]+b.viscosity.v[i])/b.density0.v[i]*grows/b.volume
		b.density1.v[i] = b.density0.v[i] * b.volume / (b.volume + grows)
	})
}

// accelerate makes the velocities at the end of the step: a corner moves with the mass of a quarter of its four cells.
func (b *box) accelerate() {
	p, q, d := b.pressure.v, b.viscosity.v, b.density0.v
	b.each(1, 1, func(i, _, _ int) {
		left, low := i-1, i-b.row
		both := low - 1
		s := .5 * b.dt / (.25 * b.volume * (d[both] + d[low] + d[i] + d[left]))
		b.velocity1[0].v[i] = b.velocity0[0].v[i] - s*b.dy*(p[i]-p[left]+p[low]-p[both]) - s*b.dy*(q[i]-q[left]+q[low]-q[both])
		b.velocity1[1].v[i] = b.velocity0[1].v[i] - s*b.dx*(p[i]-p[low]+p[left]-p[both]) - s*b.dx*(q[i]-q[low]+q[left]-q[both])
	})
}

// meanVelocity returns the mean of the velocities before and after the step. It lies where advection finds its fluxes of mass.
func (b *box) meanVelocity() *[2]field {
	for d := range 2 {
		b.each(1, 1, func(i, _, _ int) { b.massFlux[d].v[i] = .5 * (b.velocity0[d].v[i] + b.velocity1[d].v[i]) })
	}
	return &b.massFlux
}

// fluxes makes the volumes that pass the faces of the cells.
func (b *box) fluxes(velocity *[2]field) {
	b.each(1, 0, func(i, _, _ int) {
		b.volumeFlux[0].v[i] = .5 * b.dt * b.dy * (velocity[0].v[i] + velocity[0].v[i+b.row])
	})
	b.each(0, 1, func(i, _, _ int) {
		b.volumeFlux[1].v[i] = .5 * b.dt * b.dx * (velocity[1].v[i] + velocity[1].v[i+1])
	})
}

// totals returns the sums over the box.
func (b *box) totals() (totals, error) {
	sum := make([]float64, 3)
	u, v := b.velocity0[0].v, b.velocity0[1].v
	b.each(0, 0, func(i, _, _ int) {
		mass, speed2 := b.density0.v[i]*b.volume, 0.0
		for _, k := range []int{i, i + 1, i + b.row, i + b.row + 1} {
			speed2 += .25 * (u[k]*u[k] + v[k]*v[k])
		}
		sum[0], sum[1], sum[2] = sum[0]+mass, sum[1]+mass*b.energy0.v[i], sum[2]+.5*mass*speed2
	})
	err := mpi.AllreduceInPlace(b.grid.Comm, sum, mpi.Sum)
	return totals{sum[0], sum[1], sum[2]}, err
}
