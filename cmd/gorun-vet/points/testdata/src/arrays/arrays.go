// Package arrays has its state in arrays of packages device and dist.
package arrays

import (
	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/mpi"
)

// a is read and written by a kernel, scratch is written first, and table is never written.
func kernels(c *mpi.Comm, d *device.Device, k *device.Kernel, a, scratch, table *device.Array[int32], n int) error { // want kernels:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `a is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		if _, err := d.Run(k, nil, nil, scratch.Rows(0, n/2).Out(), a.Rows(0, n).In(), table.In()); err != nil {
			return err
		}
		if _, err := d.Run(k, nil, nil, a.Out(), scratch.In()); err != nil {
			return err
		}
	}
	return nil
}

// The memory of an array is the array.
func memory(c *mpi.Comm, d *device.Device, k *device.Kernel, a, b *device.Array[int32], n int) error { // want memory:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `a is live at this Point and not registered`
			return err
		}
		from, err := a.Host()
		if err != nil {
			return err
		}
		to, err := b.HostW()
		if err != nil {
			return err
		}
		copy(to, from)
		if err := mpi.Bcast(c, to, 0); err != nil {
			return err
		}
		if _, err := d.Run(k, nil, nil, a.InOut(), b.In()); err != nil {
			return err
		}
	}
	return nil
}

// What is registered, by itself or held, is not reported.
func registered(c *mpi.Comm, d *device.Device, k *device.Kernel, a, b *device.Array[int32], x *dist.Array[float64], n int) error { // want registered:"messages Point"
	step := 0
	held, err := dist.Held(c, dist.Rows{0, n}, 1, b.Rows(1, n))
	if err != nil {
		return err
	}
	for name, v := range map[string]any{"step": &step, "a": a, "b": held, "x": x} {
		if err := cr.Register(name, v); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil {
			return err
		}
		if err := x.Exchange(); err != nil {
			return err
		}
		x.Own()[0] += x.Row(1)[0]
		if _, err := d.Run(k, nil, nil, a.InOut(), b.Rows(1, 2).InOut()); err != nil {
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
	}
	return nil
}

func distributed(c *mpi.Comm, x, y *dist.Array[float64], n int) error { // want distributed:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `x is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		for i := range n {
			next, now := y.Row(i), x.Row(i)
			next[0] = now[0] / 2
		}
		copy(x.Own(), y.Own())
	}
	return nil
}

func blocks(c *mpi.Comm, g, h *dist.Grid[float64], n int) error { // want blocks:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	if err := cr.Register("g", g); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `h is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		for i, end := g.Rows(); i < end; i++ {
			sum, row := h.Own(i), g.Row(i)
			sum[0] += row[1]
		}
	}
	return nil
}

// Rows that no variable names are read and written, too.
func direct(c *mpi.Comm, e, f, g *dist.Array[float64], h, fresh *dist.Grid[float64], n int) error { // want direct:"messages Point"
	step, sum, row := 0, 0.0, make([]float64, n)
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `e is live at this Point and not registered` `f is live at this Point and not registered` `g is live at this Point and not registered` `h is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		e.Own()[0] += 1
		copy(row, f.Row(1))
		f.Row(1)[0] = row[1]
		sum = 0
		for _, v := range g.Own()[1:] {
			sum += v
		}
		g.Own()[0] = sum
		h.Own(0)[0]++
		fresh.Own(0)[0] = 1
		sum += fresh.Own(0)[0]
	}
	return nil
}

// A part of a slice is read where its elements are.
func slices(c *mpi.Comm, a, b, fresh []float64, n int) error { // want slices:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `a is live at this Point and not registered` `b is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		copy(fresh, a[1:])
		a[1:][0] = fresh[0]
		b[1:][0]++
	}
	return nil
}

type clock struct{ t, dt float64 }

type mesh struct {
	clock
	now *device.Array[int32]
}

// Fields of a struct that is registered, which is embedded here, are.
func embedded(c *mpi.Comm, d *device.Device, k *device.Kernel, m *mesh, n int) error { // want embedded:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	if err := cr.Register("clock", &m.clock); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `m.now is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		m.t += m.dt
		m.clock.dt *= 2
		if _, err := d.Run(k, nil, nil, m.now.InOut()); err != nil {
			return err
		}
	}
	return nil
}
