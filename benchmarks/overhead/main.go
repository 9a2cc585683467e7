// Overhead measures the cost of being ready for a checkpoint. It runs the same ping-pong under gorun -cr in two
// builds: as it is, and with the build tag gorun_nocr, which leaves out the gate and the bookmarks' counters:
//
//	go run ./benchmarks/overhead
//
// The builds run in turn, for many rounds. A second copy of the first build is the control: the difference
// between the two copies is the noise of the machine. For each size it prints the median of the ratios within
// the rounds and its 95 % confidence interval. If valgrind is installed, it also counts the instructions of one
// message through the library, in both builds.
//
//	go run ./benchmarks/overhead -profile
//
// counts them by function, on both sides of an 8-byte message through shared
// memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// options are what the command line asks for.
type options struct {
	rounds  int
	time    time.Duration
	batches int
	sizes   []string
	rpi     string
	count   bool
	profile bool
	check   bool
}

// target is the highest ratio that the project allows itself.
const target = 1.01

// tag leaves checkpointing out of the library.
const tag = "gorun_nocr"

func main() {
	var o options
	sizes := flag.String("sizes", "8,64,1024,8192,65536,1048576", "sizes of messages in bytes")
	flag.IntVar(&o.rounds, "rounds", 15, "rounds in which each build runs once; 0: count instructions only")
	flag.DurationVar(&o.time, "time", 100*time.Millisecond, "measured time per size and round")
	flag.IntVar(&o.batches, "batches", 5, "batches per size and round")
	flag.StringVar(&o.rpi, "rpi", "tcp", "transport")
	flag.BoolVar(&o.count, "instructions", true, "count instructions with valgrind")
	flag.BoolVar(&o.profile, "profile", false, "only count the instructions of an 8-byte message by function")
	flag.BoolVar(&o.check, "check", false, "fail if the interval of a ratio lies above the project's target")
	flag.Parse()
	o.sizes = strings.Split(*sizes, ",")
	bench.Main("overhead", func(ctx context.Context) error { return run(ctx, &o, os.Stdout) })
}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if o.profile {
		return profile(ctx, world, w)
	}
	missed := 0
	if o.rounds > 0 {
		if missed, err = pingpong(ctx, world, o, w); err != nil {
			return err
		}
	}
	if o.count {
		if err := instructions(ctx, world, w); err != nil {
			return err
		}
	}
	if o.check && missed > 0 {
		return fmt.Errorf("%d sizes above %.2f", missed, target)
	}
	return nil
}

// The builds that take turns.
const (
	with = iota
	without
	control
	builds
)

// pingpong measures and prints the ratios and returns how many are above the
// target for certain.
func pingpong(ctx context.Context, world *bench.World, o *options, w io.Writer) (missed int, err error) {
	var exe [builds]string
	if exe[with], err = bench.Build(world.Bin, "netpipe", "benchmarks/netpipe"); err != nil {
		return 0, err
	}
	if exe[without], err = bench.Build(world.Bin, "netpipe-nocr", "benchmarks/netpipe", tag); err != nil {
		return 0, err
	}
	exe[control] = exe[with]

	var times [builds]map[int][]float64 // by size
	var sizes []int
	for round := range o.rounds {
		for i := range builds {
			b := (i + round) % builds
			lines, err := measure(ctx, world, exe[b], o)
			if err != nil {
				return 0, err
			}
			if times[b] == nil {
				times[b] = make(map[int][]float64)
			}
			for _, l := range lines {
				if round == 0 && i == 0 {
					sizes = append(sizes, l.Bytes)
				}
				times[b][l.Bytes] = append(times[b][l.Bytes], l.Seconds)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	fmt.Fprintf(w, "%9s %12s %12s   %-24s   %s\n", "bytes", "with, us", "without, us", "with / without, 95 %", "control")
	for _, size := range sizes {
		ratios := stats.Ratios(times[with][size], times[without][size])
		lo, hi := stats.Interval(ratios)
		noise := stats.Ratios(times[control][size], times[with][size])
		nlo, nhi := stats.Interval(noise)
		fmt.Fprintf(w, "%9d %12.3f %12.3f   %.4f (%.4f .. %.4f)   %.4f (%.4f .. %.4f)   %s\n", size,
			stats.Median(times[with][size])*1e6, stats.Median(times[without][size])*1e6,
			stats.Median(ratios), lo, hi, stats.Median(noise), nlo, nhi, verdict(stats.Median(ratios), lo))
		if lo > target {
			missed++
		}
	}
	fmt.Fprintf(w, "Median time of a message one way; ratios are medians over %d rounds; the target is %.2f at every size.\n", o.rounds, target)
	return missed, nil
}

// verdict puts a ratio in a word.
func verdict(median, lo float64) string {
	switch {
	case median <= target:
		return "reached"
	case lo <= target:
		return "within the noise"
	}
	return "MISSED"
}

func measure(ctx context.Context, world *bench.World, exe string, o *options) ([]bench.Line, error) {
	limit := time.Minute + 10*time.Duration(len(o.sizes))*o.time
	out, err := bench.Output(ctx, limit, nil, world.Gorun, "-np", "2", "-cr", "-rpi", o.rpi, exe, "-csv",
		"-time", o.time.String(), "-batches", fmt.Sprint(o.batches), "-sizes", strings.Join(o.sizes, ","))
	if err != nil {
		return nil, err
	}
	return bench.ReadLines(out)
}
