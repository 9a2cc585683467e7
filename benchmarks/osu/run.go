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
	case o.root >= c.Size():
		return fmt.Errorf("-k fixed:%d: there are %d ranks", o.root, c.Size())
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
		if t.room(c.Size())*size*o.buffers() > o.memory {
			continue
		}
		reps, skip := o.repetitions(size)
		columns, wrong, err := o.size(c, load, n, size, reps, skip)
		if err == nil {
			wrong, err = mpi.AllreduceValue(c, wrong, mpi.Sum)
		}
		if err == nil {
			err = o.line(w, size, reps, columns, wrong)
		}
		if err == nil && wrong > 0 {
			err = fmt.Errorf("%s: %d elements were wrong at %d bytes", t.name, wrong, size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// size runs a test with one size. It returns the columns, and how many elements were wrong on this rank.
func (o *options) size(c *mpi.Comm, load *busy.Load, n, size, reps, skip int) (columns []float64, wrong int, err error) {
	if o.t.run != nil {
		p := newPairs(c, o, n, size)
		columns, err = o.t.run(p, reps, skip)
		return columns, p.wrong, err
	}
	s := &series{Buffers: &patterns.Buffers{C: c, Size: size, Root: o.root, Shift: o.rotate}, reps: reps, skip: skip}
	var check patterns.Check
	if o.check {
		s.check = &check
	}
	if o.t.do != nil {
		var do func(int) error
		do, check = o.t.do(s.Buffers)
		columns, err = s.blocking(do)
	} else {
		var begin func(int) (mpi.Request, error)
		begin, check = o.t.begin(s.Buffers)
		columns, err = s.overlapped(o.polls, load, begin)
	}
	return columns, s.wrong, err
}
