// Collectives measures collective calls on any number of ranks:
//
//	gorun -np 16 ./benchmarks/collectives
//	gorun -np 4 ./benchmarks/collectives -ops allreduce,bcast -sizes 8,1048576
//
// Each collective is called as often as fits into a given time. The time of the slowest rank counts, and the
// median over several batches. The size is that of the largest buffer that a rank passes. In alltoall,
// allgather and reduce_scatter it is divided among the ranks, and each rank has at least 8 bytes. Numbers are
// float64, and reductions are sums. The root of bcast is another rank each time, so that none runs ahead of the
// others.
//
// -csv prints what benchmarks/compare reads instead of the table:
//
//	mode,bytes,seconds,low,high
//
// -overlap measures instead which share of an Iallreduce and of the exchange of a halo is hidden behind a computation
// of equal length.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/repeat"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/mpi"
)

// options are what the command line asks for.
type options struct {
	ops     []op
	sizes   []int
	batches int
	time    time.Duration // measured per size, all batches together
	csv     bool
	overlap bool
}

func main() {
	o := arguments.Parse("collectives", parse)
	mpi.Run(func(c *mpi.Comm) error { return collectives(c, o, os.Stdout) })
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("collectives", flag.ContinueOnError)
	names := f.String("ops", strings.Join(opNames(), ","), "what to measure")
	sizes := f.String("sizes", "8,1024,65536,1048576", "sizes in bytes, separated by `commas`")
	f.IntVar(&o.batches, "batches", 5, "median over `N` batches of repetitions")
	f.DurationVar(&o.time, "time", 200*time.Millisecond, "measured time per size")
	f.BoolVar(&o.csv, "csv", false, "print comma separated values instead of a table")
	f.BoolVar(&o.overlap, "overlap", false, "measure how much is hidden behind a computation")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.batches < 1 || o.time <= 0 {
		return nil, fmt.Errorf("bad argument; see -help")
	}
	known := opNames()
	chosen, err := arguments.Names("collective", *names, known)
	if err != nil {
		return nil, err
	}
	for _, name := range chosen {
		o.ops = append(o.ops, ops[slices.Index(known, name)])
	}
	for _, text := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < word || size > maxSize {
			return nil, fmt.Errorf("%q is not a size in bytes from %d to %d", text, word, maxSize)
		}
		o.sizes = append(o.sizes, size)
	}
	return o, nil
}

// maxSize bounds what -sizes asks for: each rank allocates two buffers of it.
const maxSize = 1 << 30

// collectives is the program of one rank.
func collectives(c *mpi.Comm, o *options, w io.Writer) error {
	p := newParty(c, slices.Max(o.sizes))
	if c.Rank() != 0 {
		w = io.Discard
	}
	if o.overlap {
		return p.overlap(o, w)
	}
	if o.csv {
		fmt.Fprintln(w, "mode,bytes,seconds,low,high")
	} else {
		fmt.Fprintf(w, "%-14s %10s %12s %8s\n", "collective", "bytes", "us", "spread")
	}
	for _, op := range o.ops {
		sizes := o.sizes
		if op.bare {
			sizes = []int{0}
		}
		for _, size := range sizes {
			times, err := p.measure(op, size, o)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", op.name, size, err)
			}
			if o.csv {
				fmt.Fprintf(w, "%s,%d,%.9g,%.9g,%.9g\n", op.name, size, stats.Median(times), stats.Quantile(times, 0.25), stats.Quantile(times, 0.75))
			} else {
				fmt.Fprintf(w, "%-14s %10d %12.3f %7.1f%%\n", op.name, size, stats.Median(times)*1e6, 100*stats.Spread(times))
			}
		}
	}
	return nil
}

// measure times one size. Rank 0 decides how often, and tells the others; only
// it returns the times.
func (p *party) measure(op op, size int, o *options) ([]float64, error) {
	if p.c.Rank() != 0 {
		return nil, p.follow(op, size)
	}
	times, _, err := repeat.Batches(o.time, o.batches, func(count int) (time.Duration, error) {
		if err := p.tell(&count); err != nil {
			return 0, err
		}
		return p.batch(op, size, count)
	})
	if err != nil {
		return nil, err
	}
	end := 0
	return times, p.tell(&end)
}

// follow is the part of the ranks that are told.
func (p *party) follow(op op, size int) error {
	for {
		var count int
		if err := p.tell(&count); err != nil || count == 0 {
			return err
		}
		if _, err := p.batch(op, size, count); err != nil {
			return err
		}
	}
}

// tell gives all ranks rank 0's count; 0 ends the size.
func (p *party) tell(count *int) error {
	p.count[0] = *count
	err := mpi.Bcast(p.c, p.count[:], 0)
	*count = p.count[0]
	return err
}

// batch runs op count times on all ranks; rank 0 learns how long the slowest took.
func (p *party) batch(op op, size, count int) (time.Duration, error) {
	if err := mpi.Barrier(p.c); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := op.run(p, size, count); err != nil {
		return 0, err
	}
	took, slowest := []int64{int64(time.Since(start))}, []int64{0}
	err := mpi.Reduce(p.c, took, slowest, mpi.Max, 0)
	return time.Duration(slowest[0]), err
}
