// Ft is the NAS benchmark FT: it solves the heat equation on a box of points by Fourier transforms in three dimensions
// (RNR-94-007, section 2.6).
//
//	gorun -np 4 -cr ./examples/apps/npb/ft A
//
// The ranks have slabs of the box, and exchange parts of them between the transforms along the second and the third
// dimension. So the number of ranks is a power of two up to both these dimensions. A rank's state is its part of
// the spectrum.
package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/fourier"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() { nas.Main(ft) }

func ft(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := fourier.Problems[class]
	if err := p.Fits(c.Size()); err != nil {
		return nil, err
	}
	b := newBox(c, p)
	var sums []complex128
	loop, err := nas.NewLoop(c, map[string]any{"spectrum": &b.spectrum, "sums": &sums})
	if err != nil {
		return nil, err
	}
	seconds, err := loop.Run(len(p.Sums), func(i int) error {
		if i == 1 {
			if err := b.begin(); err != nil {
				return err
			}
		}
		b.evolve()
		if err := b.inverse(); err != nil {
			return err
		}
		sum, err := b.checksum()
		sums = append(sums, sum)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.Report(sums, seconds), nil
}
