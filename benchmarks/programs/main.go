// Programs tells what checkpoints cost a program that runs for a minute or more. It runs a NAS benchmark in pairs, with
// native checkpoints at an interval and without any:
//
//	go run ./benchmarks/programs cg
//	go run ./benchmarks/programs -class A lu
//
//	go run ./benchmarks/programs -class W -np 2 -rpi rdma -tag gorun_nolayer lu
//
// With -tag no checkpoints are taken: the second of a pair is the program built with that tag, which leaves out what is to be judged.
//
// Which of a pair comes first changes from pair to pair. It prints the times of the iterations as the benchmark tells them,
// how many snapshots were committed, and the ratio of each pair. Both runs are ready for checkpoints (-cr=native), so the
// ratio is the cost of taking them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// options are what the command line asks for.
type options struct {
	program, class string
	rpi, tag       string
	np, pairs      int
	every          time.Duration
	limit          time.Duration
	check          bool
}

// target is the highest ratio that the project allows itself.
const target = 1.02

func main() {
	var o options
	flag.StringVar(&o.class, "class", "B", "class of the problem: S, W, A or B")
	flag.IntVar(&o.np, "np", 4, "ranks")
	flag.IntVar(&o.pairs, "pairs", 2, "runs with checkpoints, and as many without")
	flag.DurationVar(&o.every, "every", 10*time.Second, "from one checkpoint to the next")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "limit of one run")
	flag.StringVar(&o.rpi, "rpi", "", "transport; without it the one that gorun chooses")
	flag.StringVar(&o.tag, "tag", "", "compare with a build with this `tag`, such as gorun_nolayer (the layer of queue pairs), and take no checkpoints")
	flag.BoolVar(&o.check, "check", false, "fail if the median ratio lies above the project's target")
	flag.Parse()
	if o.program = flag.Arg(0); flag.NArg() != 1 || o.pairs < 1 {
		fmt.Fprintln(os.Stderr, "usage: programs [flags] bt|cg|ep|ft|is|lu|mg|sp")
		os.Exit(2)
	}
	bench.Main("programs", func(ctx context.Context) error { return run(ctx, &o, os.Stdout) })
}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	exe, err := bench.Build(world.Bin, o.program, "examples/apps/npb/"+o.program)
	if err != nil {
		return err
	}
	other, what := exe, fmt.Sprintf("with a checkpoint every %v, %%.2f s without", o.every)
	if o.tag != "" {
		if other, err = bench.Build(world.Bin, o.program+"-"+o.tag, "examples/apps/npb/"+o.program, o.tag); err != nil {
			return err
		}
		what = fmt.Sprintf("as it is, %%.2f s with %s", o.tag)
	}
	var with, without []float64
	for pair := range o.pairs {
		for i := range 2 {
			if (i+pair)%2 == 0 {
				seconds, _, err := o.once(ctx, world, other, false)
				if err != nil {
					return err
				}
				without = append(without, seconds)
				continue
			}
			seconds, taken, err := o.once(ctx, world, exe, o.tag == "")
			if err != nil {
				return err
			}
			with = append(with, seconds)
			if o.tag == "" {
				fmt.Fprintf(os.Stderr, "pair %d: %d snapshots\n", pair+1, taken)
			}
		}
		fmt.Fprintf(w, "%s, class %s, %d ranks: %.2f s "+what+": %.4f\n", o.program, o.class, o.np, with[pair], without[pair], with[pair]/without[pair])
	}
	ratios := stats.Ratios(with, without)
	lo, hi := stats.Interval(ratios)
	fmt.Fprintf(w, "median %.4f (%.4f .. %.4f)\n", stats.Median(ratios), lo, hi)
	if o.check && stats.Median(ratios) > target {
		return fmt.Errorf("above %.2f", target)
	}
	return nil
}

var told = regexp.MustCompile(`Time in seconds *= *([0-9.]+)`)

// once runs the program, and returns the seconds of its iterations and the number of snapshots.
func (o *options) once(ctx context.Context, world *bench.World, exe string, checkpoints bool) (seconds float64, taken int, err error) {
	dir, err := os.MkdirTemp(world.Dir, "snapshots-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	args := []string{world.Gorun, "-np", strconv.Itoa(o.np)}
	if o.rpi != "" {
		args = append(args, "-rpi", o.rpi)
	}
	if o.tag == "" {
		args = append(args, "-cr=native", "-ckpt-dir", dir)
	}
	if checkpoints {
		args = append(args, "-ckpt-every", o.every.String(), "-keep", "2")
	}
	out, err := bench.Output(ctx, o.limit, nil, append(args, exe, o.class)...)
	if err != nil {
		return 0, 0, err
	}
	m := told.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, fmt.Errorf("%s tells no time:\n%s", o.program, out)
	}
	if seconds, err = strconv.ParseFloat(m[1], 64); err != nil {
		return 0, 0, err
	}
	schemas, err := filepath.Glob(filepath.Join(dir, "*", "*", "schema.toml"))
	for _, s := range schemas { // of a job they are numbered from 1
		n, nerr := strconv.Atoi(filepath.Base(filepath.Dir(s)))
		err, taken = errors.Join(err, nerr), max(taken, n)
	}
	if err == nil && checkpoints && taken == 0 {
		err = fmt.Errorf("no checkpoint within %.1f s: choose a larger class or a shorter interval", seconds)
	}
	return seconds, taken, err
}
