// Mgdevices is the NAS benchmark MG (as ../mg) on devices: V-cycles of a multigrid method for Poisson's equation on a periodic cube
// (RNR-94-007, section 2.5, and NAS-95-020).
//
//	gorun -np 2 -cr ./examples/apps/npb/mgdevices -devices 2 S
//
// The ranks have slabs of the cube, and their virtual devices parts of these. All that is computed of points are kernels; only planes at
// the borders move. Grids that are too coarse to be cut are computed by every rank. A rank's state is its part of the solution, which is less than a third of what is on
// its devices.
package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/poisson"
	"github.com/gorun-mpi/gorun/mpi"
)

var devices = flag.Int("devices", 2, "virtual devices of each rank")

func main() { nas.Main(mg) }

func mg(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := poisson.Problems[class]
	if r := c.Size(); r&(r-1) != 0 || 2*r > p.N {
		return nil, fmt.Errorf("%d ranks: the number must be a power of two, and at most %d", r, p.N/2)
	}
	ds, err := device.Virtual(max(*devices, 1))
	if err != nil {
		return nil, err
	}
	h := newHierarchy(c, ds, p)
	r, err := h.run()
	return r, errors.Join(err, ds.Close())
}

// run does all cycles.
func (h *hierarchy) run() (*nas.Report, error) {
	top := h.grids[len(h.grids)-1]
	loop, err := nas.NewLoop(h.c, map[string]any{"u": top.u})
	if err != nil {
		return nil, err
	}
	if err := h.charge(top); err != nil {
		return nil, err
	}
	if err := h.residual(top); err != nil {
		return nil, err
	}
	seconds, err := loop.Run(h.Cycles, func(int) error {
		if err := h.cycle(); err != nil {
			return err
		}
		return h.residual(top)
	})
	if err != nil {
		return nil, err
	}
	squares, err := h.squares(top)
	return h.Report(squares, seconds), err
}
