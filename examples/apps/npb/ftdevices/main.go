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
	"fmt"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

var devices = flag.Int("devices", 2, "virtual devices of each rank")

// problem is that of a class: the points of the box, and the published checksums of each iteration.
type problem struct {
	nx, ny, nz int
	sums       []complex128
}

var problems = map[nas.Class]problem{
	'S': {64, 64, 64, []complex128{
		5.546087004964e+02 + 4.845363331978e+02i, 5.546385409190e+02 + 4.865304269511e+02i, 5.546148406171e+02 + 4.883910722337e+02i,
		5.545423607415e+02 + 4.901273169046e+02i, 5.544255039624e+02 + 4.917475857993e+02i, 5.542683411903e+02 + 4.932597244941e+02i,
	}},
	'W': {128, 128, 32, []complex128{
		5.673612178944e+02 + 5.293246849175e+02i, 5.631436885271e+02 + 5.282149986629e+02i, 5.594024089970e+02 + 5.270996558037e+02i,
		5.560698047020e+02 + 5.260027904925e+02i, 5.530898991250e+02 + 5.249400845633e+02i, 5.504159734538e+02 + 5.239212247086e+02i,
	}},
	'A': {256, 256, 128, []complex128{
		5.046735008193e+02 + 5.114047905510e+02i, 5.059412319734e+02 + 5.098809666433e+02i, 5.069376896287e+02 + 5.098144042213e+02i,
		5.077892868474e+02 + 5.101336130759e+02i, 5.085233095391e+02 + 5.104914655194e+02i, 5.091487099959e+02 + 5.107917842803e+02i,
	}},
}

func main() { nas.Main(ft) }

func ft(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p, ok := problems[class]
	if n := c.Size(); !ok || n&(n-1) != 0 || n > min(p.ny, p.nz) {
		return nil, fmt.Errorf("class %v on %d ranks: classes S, W and A are known, and the number of ranks must be a power of two, at most %d", class, n, min(p.ny, p.nz))
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
	seconds, err := loop.Run(len(b.sums), func(i int) error {
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
	r := &nas.Report{Name: "FT", Size: fmt.Sprintf("%dx%dx%d", b.nx, b.ny, b.nz), Iterations: len(b.sums), Seconds: seconds, Operations: b.operations()}
	for i, want := range b.sums {
		r.Checks = append(r.Checks,
			nas.Check{What: fmt.Sprintf("checksum %d, real", i+1), Got: real(sums[i]), Want: real(want), Tolerance: 1e-12},
			nas.Check{What: fmt.Sprintf("checksum %d, imaginary", i+1), Got: imag(sums[i]), Want: imag(want), Tolerance: 1e-12})
	}
	return r, nil
}
