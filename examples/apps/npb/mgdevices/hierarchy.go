package main

import (
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/poisson"
	"github.com/gorun-mpi/gorun/mpi"
)

// hierarchy is a row of grids, each with half as many points along an edge as the next. The coarsest has two.
type hierarchy struct {
	poisson.Problem
	c     *mpi.Comm
	ds    device.Devices
	grids []*grid
	v     *device.Array[float64] // the right-hand side on the finest grid, without ghosts
	sums  *device.Array[float64] // of squares, of each plane
}

// newHierarchy makes the grids. Those are cut of which every rank gets two planes at least.
func newHierarchy(c *mpi.Comm, ds device.Devices, p poisson.Problem) *hierarchy {
	h := &hierarchy{Problem: p, c: c, ds: ds}
	for n := 2; n <= p.N; n *= 2 {
		first, count := 0, n
		if n >= 2*c.Size() {
			count = n / c.Size()
			first = c.Rank() * count
		}
		h.grids = append(h.grids, newGrid(n, first, count))
	}
	planes := p.N / c.Size()
	h.v, h.sums = device.NewArray[float64](planes, p.N, p.N), device.NewArray[float64](planes)
	return h
}

// charge sets the right-hand side.
func (h *hierarchy) charge(top *grid) error {
	plus, minus, err := h.Charges(h.c, [3]int{top.first, 0, 0}, [3]int{top.count, h.N, h.N})
	if err != nil {
		return err
	}
	v, err := h.v.HostW()
	for sign, points := range map[float64][]int{+1: plus, -1: minus} {
		for _, at := range points {
			if at -= top.first * h.N * h.N; at >= 0 && at < len(v) {
				v[at] = sign
			}
		}
	}
	return err
}

// cycle improves the solution by a V-cycle.
func (h *hierarchy) cycle() error {
	for k := len(h.grids) - 1; k > 0; k-- {
		if err := h.coarsen(h.grids[k], h.grids[k-1]); err != nil {
			return err
		}
	}
	if err := h.smooth(h.grids[0], false); err != nil {
		return err
	}
	for k, g := range h.grids[1:] {
		top := k+2 == len(h.grids)
		if err := h.refine(h.grids[k], g, top); err != nil {
			return err
		}
		if err := h.correct(g, top); err != nil {
			return err
		}
		if err := h.smooth(g, true); err != nil {
			return err
		}
	}
	return nil
}

// each runs a kernel on the planes of each device, even numbers of them unless there is one. What all of them read is sent to all before the first
// begins, so that they compute at the same time.
func (h *hierarchy) each(planes int, reads func(from, to int) []device.Use, run func(d *device.Device, from, to int) error) error {
	bounds := h.ds.Split((planes + 1) / 2)
	for _, step := range []func(d *device.Device, from, to int) error{
		func(d *device.Device, from, to int) error { return d.Fetch(reads(from, to)...) },
		run,
	} {
		for v, d := range h.ds {
			from, to := 2*bounds[v], min(2*bounds[v+1], planes)
			if from >= to {
				continue
			}
			if err := step(d, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}
