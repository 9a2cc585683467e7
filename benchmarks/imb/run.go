package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/busy"
	"github.com/gorun-mpi/gorun/mpi"
)

// bench is a run of the program on one rank.
type bench struct {
	o    *options
	all  *mpi.Comm // all ranks, in the order of -map
	load *busy.Load
	out  *report // nil but on rank 0

	wrong float64 // elements that were not right, of all ranks
}

// imb is the program of one rank.
func imb(world *mpi.Comm, o *options, w io.Writer) error {
	all, err := o.mapped(world)
	if err != nil {
		return err
	}
	defer all.Free()
	b := &bench{o: o, all: all, load: busy.Calibrate()}
	if all.Rank() == 0 && o.list {
		return o.component.list(w)
	} else if o.list {
		return nil
	}
	if all.Rank() == 0 {
		b.out = &report{w: w, options: o, all: all.Size()}
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
		if b.out.err != nil {
			return b.out.err
		}
	}
	if b.wrong > 0 {
		return fmt.Errorf("%.0f elements were wrong", b.wrong)
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
	if o.columns*o.rows > world.Size() {
		return nil, fmt.Errorf("-map %dx%d: there are %d ranks", o.columns, o.rows, world.Size())
	}
	return world.Split(0, key)
}

// worldRank returns which rank of the world has that number.
func (o *options) worldRank(i int) int {
	if i < o.columns*o.rows {
		return i%o.rows*o.columns + i/o.rows
	}
	return i
}

// counts returns on how many ranks a test runs.
func (o *options) counts(t *test, all int) (nps []int) {
	if t.pair {
		if all < 2 {
			return nil
		}
		return []int{2}
	}
	least := o.npmin
	if t.even {
		all, least = all-all%2, least+least%2
	}
	if all == 0 {
		return nil
	}
	for np := min(least, all); np < all; np *= 2 {
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

// fitting returns the sizes of a test: whole numbers of elements, rounded up.
func (o *options) fitting(t *test) (sizes []int) {
	for _, size := range o.sizes {
		size = (size + t.unit - 1) / t.unit * t.unit
		if o.chosen || !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// copies returns how many sets of buffers a test takes in turn: as many as fill twice the cache that is to be missed.
func (o *options) copies(t *test, np, size int) int {
	if o.cache == 0 || !t.shape.sized() {
		return 1
	}
	lines := (t.room(np)*size+o.cacheLine-1)/o.cacheLine + 1
	return min(o.reps, (2*o.cache-1)/(lines*o.cacheLine)+1)
}

// repetitions returns how many of a size are wanted on np ranks.
func (o *options) repetitions(t *test, np, size int) int {
	switch {
	case o.policy == "off":
		return o.reps
	case o.policy == "multiple_np" || o.policy == "auto" && t.root:
		most := float64(int(1) << o.maxLog)
		n := int(float64(o.reps)*most/(float64(np*max(size, 4))+most) + 0.5)
		return max(n-n%np, np)
	}
	return min(o.reps, max(1, o.volume/max(size, 1)))
}

// timed reports whether -time bounds the repetitions of a test.
func (o *options) timed(t *test) bool { return o.policy == "dynamic" || o.policy == "auto" && !t.root }

// sample runs one size of a test and shows it.
func (b *bench) sample(t *test, c *mpi.Comm, np, groups, size int) error {
	if need := float64(b.o.copies(t, np, size)) * float64(t.room(np)) * float64(size); need > b.o.memory {
		if b.out != nil {
			b.out.tooLarge(size, need)
		}
		return nil
	}
	n := b.o.repetitions(t, np, size)
	var s *sample
	took := 0.0
	if c != nil {
		s = newSample(b.o, t, c, size, b.load)
		if b.o.warm || b.o.timed(t) {
			var err error
			if took, err = s.estimate(n); err != nil {
				return err
			}
		}
	}
	took, err := mpi.AllreduceValue(b.all, took, mpi.Max)
	if err != nil {
		return err
	}
	if b.o.timed(t) && float64(n)*took > b.o.limit {
		n = max(1, int(b.o.limit/took))
	}
	mine := nothing
	if s != nil {
		if mine, err = s.measure(n); err != nil {
			return err
		}
	}
	of := make([]result, b.all.Size())
	if err := mpi.Allgather(b.all, []result{mine}, of); err != nil {
		return err
	}
	for _, x := range of {
		b.wrong += x.Wrong
	}
	if b.out != nil {
		b.out.results(t, np, groups, size, n, of)
		return b.out.err
	}
	return nil
}
