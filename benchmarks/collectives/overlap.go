package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/mpi"
)

// hideable is an operation that goes on while the program computes. of returns a function that begins it.
type hideable struct {
	name string
	of   func(p *party, size int) (begin func() (mpi.Request, error), err error)
}

var hideables = []hideable{
	{"iallreduce", func(p *party, size int) (func() (mpi.Request, error), error) {
		k := size / word
		return func() (mpi.Request, error) { return mpi.Iallreduce(p.c, p.out[:k], p.in[:k], mpi.Sum) }, nil
	}},
	{"halo", func(p *party, size int) (func() (mpi.Request, error), error) {
		ring, err := p.c.Cart([]int{p.c.Size()}, []bool{true}, true)
		if err != nil {
			return nil, err
		}
		width := size / word // size bytes go to each of two neighbours
		field := make([]float64, 3*width)
		halo, err := mpi.NewHalo(ring, field, []int{len(field)}, width, false)
		if err != nil {
			return nil, err
		}
		return halo.Start, nil
	}},
}

// overlap measures each operation alone, a computation of that length alone, and both at once. What is saved, as a share of the shorter
// of the two, was hidden.
func (p *party) overlap(o *options, w io.Writer) error {
	if o.csv {
		fmt.Fprintln(w, "mode,bytes,alone,computation,both,hidden")
	} else {
		fmt.Fprintf(w, "%-14s %10s %12s %12s %12s %8s\n", "operation", "bytes", "alone us", "computing us", "both us", "hidden")
	}
	for _, h := range hideables {
		for _, size := range o.sizes {
			alone, computing, both, err := p.hide(h, size, o)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", h.name, size, err)
			}
			share := max(0, min(1, (alone+computing-both)/min(alone, computing)))
			if o.csv {
				fmt.Fprintf(w, "%s,%d,%.9g,%.9g,%.9g,%.4f\n", h.name, size, alone, computing, both, share)
			} else {
				fmt.Fprintf(w, "%-14s %10d %12.3f %12.3f %12.3f %7.1f%%\n", h.name, size, alone*1e6, computing*1e6, both*1e6, 100*share)
			}
		}
	}
	return nil
}

// hide returns on rank 0 the seconds of the operation, of the computation, and of both at once. Elsewhere it returns ones.
func (p *party) hide(h hideable, size int, o *options) (alone, computing, both float64, err error) {
	begin, err := h.of(p, size)
	if err != nil {
		return 0, 0, 0, err
	}
	work := 0
	run := func(operate, compute bool) (float64, error) {
		times, err := p.measure(op{name: h.name, run: func(_ *party, _, n int) error {
			return times(n, func(int) error { return p.step(begin, operate, compute, work) })
		}}, size, o)
		if err != nil || p.c.Rank() != 0 {
			return 1, err
		}
		return stats.Median(times), nil
	}
	if alone, err = run(true, false); err != nil {
		return 0, 0, 0, err
	}
	work = int(alone * p.rate())
	if err = p.tell(&work); err != nil {
		return 0, 0, 0, err
	}
	if computing, err = run(false, true); err == nil {
		both, err = run(true, true)
	}
	return alone, computing, both, err
}

// step begins the operation, computes, and waits.
func (p *party) step(begin func() (mpi.Request, error), operate, compute bool, work int) error {
	var r mpi.Request
	var err error
	if operate {
		if r, err = begin(); err != nil {
			return err
		}
	}
	if compute {
		p.result = calculate(work)
	}
	_, err = r.Wait()
	return err
}

// calculate is a computation of n steps, each of which needs the one before.
func calculate(n int) float64 {
	x := 1.0
	for range n {
		x = x*0.999999 + 1e-6
	}
	return x
}

// rate is how many steps this rank calculates in a second, when nothing else goes on.
func (p *party) rate() float64 {
	const n = 1 << 20
	best := time.Hour
	for range 5 {
		begin := time.Now()
		p.result = calculate(n)
		best = min(best, time.Since(begin))
	}
	return n / best.Seconds()
}
