// Command floor measures what processes that share memory can do on this machine
// at best, with nothing around it: no message layer comes below that. It starts
// copies of itself and prints, for each of -tests,
//
//	barrier    each of N processes sets a flag and looks at the others' until all
//	           are set
//	pingpong   one process sets a word, the other answers, time one way
//	copy       the same, and before it a process copies so many bytes into memory
//	           that both see, and the other copies them out; in pieces, of which
//	           one is copied out while the next is copied in, of the length that is
//	           fastest; and so after a word of each line was rewritten (dirty)
//	stream     one process writes words into lines, with one word or seven to a
//	           line, the other takes them out and says so every 64; time of a word
//	bcast      one of N processes sets a word and the others wait for it, another
//	           one each time; they look again and again, or they sleep and it
//	           wakes them
//	words      collectives in which each of N processes has a word for all, or one
//	           for each, and the barrier in the same way: it writes them where all
//	           see them, and each reads those of all (each), or the first process puts
//	           together what all want (one), or whoever is the first to see all words,
//	           and where that is goes from process to process (first)
//	bulk       alltoall, bcast and allreduce of N processes with buffers of -bulk
//	           bytes: what others need is copied into memory that all see and
//	           out of it, as much of it at once as is fastest. To reduce, each
//	           process adds its part of what all have written, or all that it has
//	           to what the process before it has left (a chain). Alltoall also by
//	           one copy of the kernel's, from process to process
//	heat       a step of examples/heat with nothing but copies and flags between
//	           the processes, how much of it is outside computation, and the
//	           computation alone
//	solver     the same for an iteration of examples/solver
//
// With more processes than CPUs a process yields between two looks. What
// arrives is compared with what should have before it is timed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

func main() {
	if text := os.Getenv(variable); text != "" {
		if err := process(text, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	o := arguments.Parse("floor", parse)
	bench.Main("floor", func(ctx context.Context) error { return run(ctx, o, os.Stdout) })
}

func run(ctx context.Context, o *options, w io.Writer) error {
	fmt.Fprintf(w, "%-60s %12s %12s %8s   %d CPUs\n", "", "median us", "least us", "spread", runtime.NumCPU())
	show := func(name string, times []float64) {
		fmt.Fprintf(w, "%-60s %12.4f %12.4f %7.1f%%\n", name, stats.Median(times)*1e6, slices.Min(times)*1e6, 100*stats.Spread(times))
	}
	for _, r := range rows(o) {
		best, way := math.Inf(1), ""
		var m *times
		for _, t := range r.tasks {
			all, err := t.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if v := stats.Median(all.all); v < best {
				best, m = v, all
				if len(r.tasks) > 1 {
					way = fmt.Sprintf(", pieces of %d KB", t.Piece>>10)
				}
			}
		}
		show(r.name+way, m.all)
		if slices.Max(m.outside) > 0 {
			show("    of it outside computation", m.outside)
		}
	}
	return nil
}
