package main

import (
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/benchmarks/internal/busy"
	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// osu is the program of one rank.
func osu(c *mpi.Comm, o *options, w io.Writer) error {
	t := o.t
	n := c.Size() / 2
	switch {
	case t.single && c.Size() != 2:
		return fmt.Errorf("%s runs on 2 ranks, not %d", t.name, c.Size())
	case c.Size() < 2:
		return fmt.Errorf("%s runs on 2 ranks or more", t.name)
	case o.pairs > n:
		return fmt.Errorf("-p %d: %d ranks are %d pairs", o.pairs, c.Size(), n)
	case o.pairs > 0:
		n = o.pairs
	}
	if c.Rank() > 0 {
		w = io.Discard
	}
	if err := o.header(w, n); err != nil {
		return err
	}
	load := busy.Calibrate()
	for _, size := range o.all() {
		if t.room(c.Size())*size > o.memory {
			continue
		}
		reps, skip := o.repetitions(size)
		b := &patterns.Buffers{C: c, Size: size}
		var columns []float64
		var err error
		switch {
		case t.run != nil:
			columns, err = t.run(newPairs(c, n, o.window), size, reps, skip)
		case t.do != nil:
			columns, err = blocking(b, reps, skip, t.do(b))
		default:
			columns, err = overlapped(b, reps, skip, o.polls, load, t.begin(b))
		}
		if err == nil {
			err = o.line(w, size, reps, columns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
