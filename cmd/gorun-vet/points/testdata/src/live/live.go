// Package live has loops with Points.
package live

import (
	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

type field struct {
	now, next []float64
	sum       float64
	c         *mpi.Comm
}

func (f *field) step() {
	for i := range f.now {
		f.next[i] = f.now[i] / 2
	}
	copy(f.now, f.next)
	f.sum += f.now[0]
}

func fields(c *mpi.Comm, f *field, n int) error { // want fields:"messages Point"
	step := 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `f.now is live at this Point and not registered` `f.sum is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
		f.step()
	}
	return nil
}

func counter(c *mpi.Comm, n int) error { // want counter:"messages Point"
	for i := 0; i < n; i++ {
		if err := cr.Point(); err != nil { // want `i is live at this Point and not registered`
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
	}
	return nil
}

func ranged(c *mpi.Comm, n int) error { // want ranged:"messages Point"
	for range n { // want `a restarted program begins this range anew`
		if err := cr.Point(); err != nil {
			return err
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
	}
	return nil
}

// What is written on every way before it is read needs no place in an image; received is scratch, change is dead.
func dead(c *mpi.Comm, n int) (float64, error) { // want dead:"messages Point"
	step, change, received, total := 0, 0.0, make([]float64, 1), 0.0
	for name, v := range map[string]any{"step": &step, "change": &change, "total": &total} {
		if err := cr.Register(name, v); err != nil {
			return 0, err
		}
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `change is registered and dead at this Point`
			return 0, err
		}
		if _, err := mpi.Recv(c, received, 0, 0); err != nil {
			return 0, err
		}
		change = received[0]
		total += change
	}
	return change + total, nil
}

// A way that reads makes a variable live, one that writes first makes this silent.
func ways(c *mpi.Comm, n int) error { // want ways:"Point"
	step, kept, made := 0, 0, 0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := cr.Point(); err != nil { // want `kept is live at this Point and not registered`
			return err
		}
		if step%2 == 0 {
			kept++
		}
		if step%3 == 0 {
			made = step
		} else {
			made++
		}
	}
	return nil
}
