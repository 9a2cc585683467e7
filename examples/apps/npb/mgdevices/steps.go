package main

import (
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
)

// weights are those of a point, its 6 neighbours, the 12 beyond and the 8 at the corners.
type weights [4]float64

var (
	minusLaplace = weights{8. / 3, 0, -1. / 6, -1. / 12}
	restriction  = weights{1. / 2, 1. / 4, 1. / 8, 1. / 16}
)

// weigh adds to planes of an array, or sets them to if add is not set, what the points around weigh in another one, which has ghosts. Of that every step-th point
// counts.
func (h *hierarchy) weigh(to *device.Array[float64], add bool, around *device.Array[float64], step int, w weights) error {
	dims, more := to.Dims(), 0
	if add {
		more = 1
	}
	return h.each(dims[0], func(from, to int) []device.Use {
		planes, below, above := near(around, step*from, step*to)
		return []device.Use{planes, below, above}
	}, func(d *device.Device, f, t int) error {
		written := to.Rows(f, t).Out()
		if add {
			written = to.Rows(f, t).InOut()
		}
		planes, below, above := near(around, step*f, step*t)
		_, err := d.Run(weigh, []int{dims[2], dims[1], t - f}, nil, written, planes, below, above, step*(t-f), step, more, w[0], w[1], w[2], w[3])
		return err
	})
}

// residual sets r of the finest grid to v - A u.
func (h *hierarchy) residual(g *grid) error {
	r := g.own(g.r)
	err := h.each(g.count, func(from, to int) []device.Use { return []device.Use{h.v.Rows(from, to).In()} }, func(d *device.Device, from, to int) error {
		_, err := d.Run(set, []int{(to - from) * g.n * g.n}, nil, r.Rows(from, to).Out(), h.v.Rows(from, to).In())
		return err
	})
	if err != nil {
		return err
	}
	return h.subtract(g)
}

// subtract takes A u from r.
func (h *hierarchy) subtract(g *grid) error {
	if err := h.weigh(g.own(g.r), true, g.u, 1, minusLaplace); err != nil {
		return err
	}
	return g.ghosts(h.c, g.r)
}

// correct sets r of a grid to what is left after its u.
func (h *hierarchy) correct(g *grid, top bool) error {
	if top {
		return h.residual(g)
	}
	return h.subtract(g)
}

// smooth adds to u, or sets it to if add is not set, what r weighs.
func (h *hierarchy) smooth(g *grid, add bool) error {
	if err := h.weigh(g.own(g.u), add, g.r, 1, weights{h.Smooth[0], h.Smooth[1], h.Smooth[2], 0}); err != nil {
		return err
	}
	return g.ghosts(h.c, g.u)
}

// coarsen sets the residual of the next coarser grid, whose point i lies on point 2i+1 of this one.
func (h *hierarchy) coarsen(g, coarse *grid) error {
	at := g.first/2 - coarse.first
	if err := h.weigh(coarse.own(coarse.r).Rows(at, at+g.count/2), false, g.r, 2, restriction); err != nil {
		return err
	}
	if coarse.whole() && !g.whole() {
		if err := coarse.gather(h.c, coarse.r); err != nil {
			return err
		}
	}
	return coarse.ghosts(h.c, coarse.r)
}

// refine adds to u of a grid, or sets it to if add is not set, what the next coarser one has on its points and between.
func (h *hierarchy) refine(coarse, g *grid, add bool) error {
	at, more, u := g.first/2-coarse.first, 0, g.own(g.u)
	if add {
		more = 1
	}
	err := h.each(g.count, func(from, to int) []device.Use {
		planes, below, _ := near(coarse.u, at+from/2, at+to/2)
		return []device.Use{planes, below}
	}, func(d *device.Device, from, to int) error {
		written := u.Rows(from, to).Out()
		if add {
			written = u.Rows(from, to).InOut()
		}
		planes, below, _ := near(coarse.u, at+from/2, at+to/2)
		_, err := d.Run(refine, []int{g.n, g.n, to - from}, nil, written, planes, below, more)
		return err
	})
	if err != nil {
		return err
	}
	return g.ghosts(h.c, g.u)
}

// squares returns the sum of the squares of the residual of all ranks.
func (h *hierarchy) squares(g *grid) (sum float64, err error) {
	r := g.own(g.r)
	err = h.each(g.count, func(from, to int) []device.Use { return []device.Use{r.Rows(from, to).In()} }, func(d *device.Device, from, to int) error {
		_, err := d.Run(squares, []int{to - from}, nil, h.sums.Rows(from, to).Out(), r.Rows(from, to).In(), g.n*g.n)
		return err
	})
	if err != nil {
		return 0, err
	}
	sums, err := h.sums.Host()
	for _, s := range sums {
		sum += s
	}
	if err != nil {
		return 0, err
	}
	return mpi.AllreduceValue(h.c, sum, mpi.Sum)
}
