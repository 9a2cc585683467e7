package main

import (
	"math"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/fourier"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// box is what a rank has of the box, real and imaginary parts in turn. x runs fastest. In space it has a slab of some z, of which it has all y; the spectrum is cut
// along y instead. Rows, which devices share out, are y or z:
//
//	spectrum  [y of this rank][z][x]
//	space     [z of this rank][y][x]
type box struct {
	fourier.Problem
	c          *mpi.Comm
	ds         device.Devices
	ly, lz     int // y and z of this rank
	spectrum   *device.Array[float64]
	work       *device.Array[float64] // as the spectrum
	space      *device.Array[float64]
	out, in    []float64              // messages
	rx, ry, rz *device.Array[float64] // roots of unity
	ex, ey, ez *device.Array[float64] // factors by which the spectrum falls in an iteration, along each dimension
}

func newBox(c *mpi.Comm, ds device.Devices, p fourier.Problem) (*box, error) {
	b := &box{Problem: p, c: c, ds: ds, ly: p.NY / c.Size(), lz: p.NZ / c.Size()}
	b.spectrum, b.work = device.NewArray[float64](b.ly, p.NZ, 2*p.NX), device.NewArray[float64](b.ly, p.NZ, 2*p.NX)
	b.space = device.NewArray[float64](b.lz, p.NY, 2*p.NX)
	n := 2 * p.NX * p.NY * b.lz
	b.out, b.in = make([]float64, n), make([]float64, n)
	for i, n := range []int{p.NX, p.NY, p.NZ} {
		r, err := table(2*n, roots)
		if err != nil {
			return nil, err
		}
		e, err := table(n, decay)
		if err != nil {
			return nil, err
		}
		*[]**device.Array[float64]{&b.rx, &b.ry, &b.rz}[i], *[]**device.Array[float64]{&b.ex, &b.ey, &b.ez}[i] = r, e
	}
	return b, nil
}

// table makes an array of what a function fills.
func table(n int, fill func([]float64)) (*device.Array[float64], error) {
	a := device.NewArray[float64](n)
	h, err := a.HostW()
	if err == nil {
		fill(h)
	}
	return a, err
}

// roots are e^(2 pi i k/n).
func roots(r []float64) {
	n := len(r) / 2
	for k := range n {
		r[2*k+1], r[2*k] = math.Sincos(2 * math.Pi * float64(k) / float64(n))
	}
}

// decay is e^(-4 alpha pi^2 k^2) for the frequencies k = 0, 1 ... n/2-1, -n/2 ... -1.
func decay(f []float64) {
	const alpha = 1e-6
	n := len(f)
	for i := range f {
		k := float64((i+n/2)%n - n/2)
		f[i] = math.Exp(-4 * alpha * math.Pi * math.Pi * k * k)
	}
}

// The signs of the roots.
const (
	forward  = 1.0
	backward = -1.0
)

// each runs a kernel on the rows of each device. They compute at the same time.
func (b *box) each(rows int, run func(d *device.Device, from, to int) error) error {
	bounds := b.ds.Split(rows)
	for v, d := range b.ds {
		if from, to := bounds[v], bounds[v+1]; from < to {
			if err := run(d, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// alongZ transforms what is cut along y.
func (b *box) alongZ(a *device.Array[float64], sign float64) error {
	return b.each(b.ly, func(d *device.Device, from, to int) error {
		_, err := d.Run(transform, []int{(to - from) * b.NX}, nil, a.Rows(from, to).InOut(), b.rz.In(), b.NZ, b.NX, b.NZ*b.NX, 1, b.NX, sign)
		return err
	})
}

// alongXY transforms what is in space.
func (b *box) alongXY(sign float64) error {
	return b.each(b.lz, func(d *device.Device, from, to int) error {
		rows := b.space.Rows(from, to)
		if _, err := d.Run(transform, []int{(to - from) * b.NX}, nil, rows.InOut(), b.ry.In(), b.NY, b.NX, b.NY*b.NX, 1, b.NX, sign); err != nil {
			return err
		}
		_, err := d.Run(transform, []int{(to - from) * b.NY}, nil, rows.InOut(), b.rx.In(), b.NX, b.NY, b.NY*b.NX, b.NX, 1, sign)
		return err
	})
}

// begin sets the spectrum to that of random numbers.
func (b *box) begin() error {
	space, err := b.space.HostW()
	if err != nil {
		return err
	}
	r := nas.Seed.After(len(space) * b.c.Rank())
	for i := range space {
		space[i] = r.Next()
	}
	if err := b.alongXY(forward); err != nil {
		return err
	}
	if space, err = b.space.Host(); err != nil {
		return err
	}
	b.move(space, b.out, false)
	if err := mpi.Alltoall(b.c, b.out, b.in); err != nil {
		return err
	}
	spectrum, err := b.spectrum.HostW()
	if err != nil {
		return err
	}
	b.turn(spectrum, b.in, true)
	return b.alongZ(b.spectrum, forward)
}

// step lets time pass, and computes what the spectrum is in space.
func (b *box) step() error {
	y0 := b.c.Rank() * b.ly
	err := b.each(b.ly, func(d *device.Device, from, to int) error {
		_, err := d.Run(evolve, []int{(to - from) * b.NZ * b.NX}, nil, b.work.Rows(from, to).Out(), b.spectrum.Rows(from, to).InOut(), b.ex.In(), b.ey.In(), b.ez.In(), y0+from, b.NX, b.NZ)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.alongZ(b.work, backward); err != nil {
		return err
	}
	work, err := b.work.Host()
	if err != nil {
		return err
	}
	b.turn(work, b.out, false)
	if err := mpi.Alltoall(b.c, b.out, b.in); err != nil {
		return err
	}
	space, err := b.space.HostW()
	if err != nil {
		return err
	}
	b.move(space, b.in, true)
	return b.alongXY(backward)
}

// move copies between a slab in space and messages: for each rank its y of each z.
func (b *box) move(space, parts []float64, back bool) {
	n := 2 * b.ly * b.NX
	for rank := range b.c.Size() {
		for z := range b.lz {
			exchange(space[2*(z*b.NY+rank*b.ly)*b.NX:][:n], parts[(rank*b.lz+z)*n:][:n], back)
		}
	}
}

// turn does so between what is cut along y and messages, which are in the order of space.
func (b *box) turn(spectrum, parts []float64, back bool) {
	n := 2 * b.NX
	for z := range b.NZ {
		for y := range b.ly {
			exchange(spectrum[(y*b.NZ+z)*n:][:n], parts[(z*b.ly+y)*n:][:n], back)
		}
	}
}

func exchange(a, b []float64, back bool) {
	if back {
		a, b = b, a
	}
	copy(b, a)
}

// checksum adds up 1024 points of the box.
func (b *box) checksum() (complex128, error) {
	space, err := b.space.Host()
	if err != nil {
		return 0, err
	}
	var sum complex128
	for j := 1; j <= 1024; j++ {
		x, y, z := j%b.NX, 3*j%b.NY, 5*j%b.NZ-b.c.Rank()*b.lz
		if z >= 0 && z < b.lz {
			at := 2 * ((z*b.NY+y)*b.NX + x)
			sum += complex(space[at], space[at+1])
		}
	}
	sum, err = mpi.AllreduceValue(b.c, sum, mpi.Sum)
	return sum / complex(float64(b.NX*b.NY*b.NZ), 0), err
}
