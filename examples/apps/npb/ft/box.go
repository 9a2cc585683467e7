package main

import (
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/fourier"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// box is what a rank has of the box. x runs fastest, then y, then z. In space it has a slab of some z, of which it has
// all y; the spectrum is cut along y instead:
//
//	space     [z of this rank][y][x]
//	spectrum  [z][y of this rank][x]
type box struct {
	fourier.Problem
	c        *mpi.Comm
	ly, lz   int // y and z of this rank
	spectrum []complex128
	space    []complex128
	work     []complex128
	fx       *fft
	fy, fz   *fft
	ex       []float64 // factors by which the spectrum falls in an iteration, along each dimension
	ey, ez   []float64
}

func newBox(c *mpi.Comm, p fourier.Problem) *box {
	b := &box{Problem: p, c: c, ly: p.NY / c.Size(), lz: p.NZ / c.Size(), fx: newFFT(p.NX), fy: newFFT(p.NY), fz: newFFT(p.NZ)}
	b.ex, b.ey, b.ez = decay(p.NX), decay(p.NY), decay(p.NZ)
	n := p.NX * p.NY * b.lz
	b.spectrum, b.space, b.work = make([]complex128, n), make([]complex128, n), make([]complex128, n)
	return b
}

// decay returns e^(-4 alpha pi^2 k^2) for the frequencies k = 0, 1 ... n/2-1, -n/2 ... -1.
func decay(n int) []float64 {
	const alpha = 1e-6
	f := make([]float64, n)
	for i := range f {
		k := float64((i+n/2)%n - n/2)
		f[i] = math.Exp(-4 * alpha * math.Pi * math.Pi * k * k)
	}
	return f
}

// begin sets the spectrum to that of random numbers.
func (b *box) begin() error {
	plane := b.NX * b.NY
	r := nas.Seed.After(2 * plane * b.lz * b.c.Rank())
	for i := range b.space {
		re := r.Next()
		b.space[i] = complex(re, r.Next())
	}
	for z := range b.lz {
		p := b.space[z*plane:][:plane]
		b.fx.transform(p, forward, b.NY, b.NX, 1)
		b.fy.transform(p, forward, b.NX, 1, b.NX)
	}
	b.move(b.space, b.work, false)
	if err := mpi.Alltoall(b.c, b.work, b.spectrum); err != nil {
		return err
	}
	b.fz.transform(b.spectrum, forward, b.ly*b.NX, 1, b.ly*b.NX)
	return nil
}

// move copies between a slab in space and the parts of it that the ranks have of the spectrum, one part after the
// other: into these, or back.
func (b *box) move(slab, parts []complex128, back bool) {
	n := b.ly * b.NX
	for rank := range b.c.Size() {
		for z := range b.lz {
			part := parts[(rank*b.lz+z)*n:][:n]
			rows := slab[(z*b.NY+rank*b.ly)*b.NX:][:n]
			if back {
				copy(rows, part)
			} else {
				copy(part, rows)
			}
		}
	}
}

// evolve lets time pass.
func (b *box) evolve() {
	y0 := b.c.Rank() * b.ly
	for z, ez := range b.ez {
		for y := range b.ly {
			row, f := b.spectrum[(z*b.ly+y)*b.NX:][:b.NX], ez*b.ey[y0+y]
			for x, ex := range b.ex[:len(row)] {
				t := f * ex
				row[x] = complex(real(row[x])*t, imag(row[x])*t)
			}
		}
	}
}

// inverse computes what the spectrum is in space.
func (b *box) inverse() error {
	copy(b.work, b.spectrum)
	b.fz.transform(b.work, backward, b.ly*b.NX, 1, b.ly*b.NX)
	parts := b.space
	if err := mpi.Alltoall(b.c, b.work, parts); err != nil {
		return err
	}
	b.move(b.work, parts, true)
	b.space, b.work = b.work, b.space
	plane := b.NX * b.NY
	for z := range b.lz {
		p := b.space[z*plane:][:plane]
		b.fy.transform(p, backward, b.NX, 1, b.NX)
		b.fx.transform(p, backward, b.NY, b.NX, 1)
	}
	return nil
}

// checksum adds up 1024 points of the box.
func (b *box) checksum() (complex128, error) {
	var sum complex128
	for j := 1; j <= 1024; j++ {
		x, y, z := j%b.NX, 3*j%b.NY, 5*j%b.NZ-b.c.Rank()*b.lz
		if z >= 0 && z < b.lz {
			sum += b.space[(z*b.NY+y)*b.NX+x]
		}
	}
	sum, err := mpi.AllreduceValue(b.c, sum, mpi.Sum)
	return sum / complex(float64(b.NX*b.NY*b.NZ), 0), err
}
