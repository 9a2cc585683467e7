// Ftdevices is the NAS benchmark FT (as ../ft) on devices: the heat equation on a box of points, by Fourier transforms in three
// dimensions (RNR-94-007, section 2.6).
//
//	gorun -np 2 -cr ./examples/apps/npb/ftdevices -devices 2 W
//
// The ranks have slabs of the box, and their virtual devices parts of these. All transforms and the passing of time are kernels. Between the transforms along the
// third and the second dimension the ranks exchange parts of the box. A rank's state is its part of the spectrum, which is a
// third of what is on its devices.
package main

import (
	"errors"
	"flag"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/fourier"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

var devices = flag.Int("devices", 2, "virtual devices of each rank")

func main() { nas.Main(ft) }

func ft(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := fourier.Problems[class]
	if err := p.Fits(c.Size()); err != nil {
		return nil, err
	}
	ds, err := device.Virtual(max(*devices, 1))
	if err != nil {
		return nil, err
	}
	b, err := newBox(c, ds, p)
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	r, err := b.run()
	return r, errors.Join(err, ds.Close())
}

// run does all iterations.
func (b *box) run() (*nas.Report, error) {
	var sums []complex128
	loop, err := nas.NewLoop(b.c, map[string]any{"spectrum": b.spectrum, "sums": &sums})
	if err != nil {
		return nil, err
	}
	seconds, err := loop.Run(len(b.Sums), func(i int) error {
		if i == 1 {
			if err := b.begin(); err != nil {
				return err
			}
		}
		if err := b.step(); err != nil {
			return err
		}
		sum, err := b.checksum()
		sums = append(sums, sum)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.Report(sums, seconds), nil
}
