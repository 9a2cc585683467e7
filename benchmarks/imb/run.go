package main

import (
	"io"

	"github.com/gorun-mpi/gorun/benchmarks/internal/busy"
	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// bench is a run of the program on one rank.
type bench struct {
	o    *options
	all  *mpi.Comm // all ranks, in the order of -map
	load *busy.Load
	out  *report // nil but on rank 0
}

// imb is the program of one rank.
func imb(world *mpi.Comm, o *options, w io.Writer) error {
	all, err := o.mapped(world)
	if err != nil {
		return err
	}
	defer all.Free()
	b := &bench{o: o, all: all, load: busy.Calibrate()}
	if all.Rank() == 0 {
		b.out = &report{w: w, o: o, all: all.Size()}
		b.out.begin()
	}
	for _, t := range o.tests {
		for _, np := range o.counts(t, all.Size()) {
			if err := b.test(t, np); err != nil {
				return err
			}
		}
	}
	if b.out != nil {
		b.out.end()
		return b.out.err
	}
	return nil
}

// mapped numbers the ranks as -map asks: the ranks of a column one after the other, where a row holds ranks that are
// neighbours in the world.
func (o *options) mapped(world *mpi.Comm) (*mpi.Comm, error) {
	key := world.Rank()
	if key < o.columns*o.rows {
		key = key%o.columns*o.rows + key/o.columns
	}
	return world.Split(0, key)
}

// counts returns on how many ranks a test runs.
func (o *options) counts(t *test, all int) (nps []int) {
	if t.pair {
		if all < 2 {
			return nil
		}
		return []int{2}
	}
	for np := min(o.npmin, all); np < all; np *= 2 {
		nps = append(nps, np)
	}
	return append(nps, all)
}

// test runs a test on groups of np ranks. Who is in none waits.
func (b *bench) test(t *test, np int) error {
	groups := 1
	if b.o.multi >= 0 {
		groups = b.all.Size() / np
	}
	color := b.all.Rank() / np
	if color >= groups {
		color = mpi.Undefined
	}
	c, err := b.all.Split(color, b.all.Rank())
	if err != nil {
		return err
	}
	if c != nil {
		defer c.Free()
	}
	if b.out != nil {
		b.out.header(t, np, groups)
	}
	sizes := []int{0}
	if t.shape.sized() {
		sizes = b.o.fitting(t)
	}
	for _, size := range sizes {
		if err := b.sample(t, c, np, groups, size); err != nil {
			return err
		}
	}
	return nil
}

// fitting returns the sizes that are whole numbers of elements.
func (o *options) fitting(t *test) (sizes []int) {
	for _, size := range o.sizes {
		if size%t.unit == 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// sample runs one size of a test and shows it.
func (b *bench) sample(t *test, c *mpi.Comm, np, groups, size int) error {
	if need := float64(t.room(np)) * float64(size); need > b.o.memory {
		if b.out != nil {
			b.out.tooLarge(size, need)
		}
		return nil
	}
	n := min(b.o.reps, max(1, b.o.volume/max(size, 1)))
	var s *sample
	var step func(int) error
	var begin func(int) (mpi.Request, error)
	took := 0.0
	if c != nil {
		s = &sample{t: t, np: np, rank: c.Rank(), barriers: b.o.sync && !t.loose, load: b.load}
		s.Buffers = patterns.Buffers{C: c, Size: size, Shift: b.o.shift}
		step, begin = s.once()
		var err error
		if took, err = s.estimate(n, step); err != nil {
			return err
		}
	}
	took, err := mpi.AllreduceValue(b.all, took, mpi.Max)
	if err != nil {
		return err
	}
	if b.o.dynamic && float64(n)*took > b.o.seconds {
		n = max(1, int(b.o.seconds/took))
	}
	mine := nothing
	if s != nil {
		if mine, err = s.measure(n, step, begin); err != nil {
			return err
		}
	}
	of := make([]result, b.all.Size())
	if err := mpi.Gather(b.all, []result{mine}, of, 0); err != nil {
		return err
	}
	if b.out != nil {
		b.out.results(t, np, groups, size, n, of)
		return b.out.err
	}
	return nil
}
