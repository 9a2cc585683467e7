// Tune finds out which algorithms are the fastest for collectives on this
// machine, and writes the table that says so:
//
//	go run ./benchmarks/tune -o tuned
//	gorun -param @tuned -np 16 ./program
//
// For each number of ranks it runs benchmarks/collectives once with every
// algorithm in turn, several times over, and takes medians. Where two are alike,
// within -slack, the one that the next smaller size uses is kept. Rules are for
// the ranges around what was measured, and only for ranks that share CPUs if
// those did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// options are what the command line asks for.
type options struct {
	ranks  []int
	ops    []string
	sizes  []int
	rounds int
	time   time.Duration
	slack  float64
	rpi    string
	file   string
}

func main() {
	o := arguments.Parse("tune", parse)
	bench.Main("tune", func(ctx context.Context) error { return tune(ctx, o) })
}

// measured are the collectives that benchmarks/collectives has.
var measured = []string{"barrier", "allreduce", "bcast", "alltoall", "allgather", "reduce_scatter"}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	ranks := f.String("ranks", "2,4,16", "numbers of ranks, rising, separated by `commas`")
	ops := f.String("ops", strings.Join(measured, ","), "collectives, separated by `commas`")
	sizes := f.String("sizes", "8,128,1024,8192,65536,1048576", "bytes of a rank's whole buffer, rising, separated by `commas`")
	f.IntVar(&o.rounds, "rounds", 3, "medians over `N` rounds")
	f.DurationVar(&o.time, "time", 50*time.Millisecond, "measured time for each size, in each round")
	f.Float64Var(&o.slack, "slack", 0.05, "by how much a change of algorithm has to be faster")
	f.StringVar(&o.rpi, "rpi", "", "transports, as for gorun")
	f.StringVar(&o.file, "o", "", "write the parameters to `file`, not to standard output")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.rounds < 1 || o.time <= 0 || o.slack < 0 {
		return nil, fmt.Errorf("bad argument; see -help")
	}
	var errs [3]error
	o.ops, errs[0] = arguments.Names("collective", *ops, measured)
	o.ranks, errs[1] = rising(*ranks, 2)
	o.sizes, errs[2] = rising(*sizes, 8)
	return o, errors.Join(errs[:]...)
}

// rising reads a list of numbers that rise.
func rising(list string, least int) ([]int, error) {
	all, err := arguments.Numbers(list, least, math.MaxInt)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			return nil, fmt.Errorf("%q does not rise", list)
		}
	}
	return all, err
}

func tune(ctx context.Context, o *options) error {
	if o.file != "" {
		if err := arguments.Writable(o.file); err != nil {
			return err
		}
	}
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer world.Close()
	program, err := bench.Build(world.Bin, "collectives", "benchmarks/collectives")
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# gorun -param @FILE; found by benchmarks/tune on %d CPUs, ranks %v, transports %q\n", runtime.NumCPU(), o.ranks, o.rpi)
	for _, op := range o.ops {
		var rules []coll.Rule
		for i, n := range o.ranks {
			t, err := measure(ctx, o, world.Gorun, program, op, n)
			if err != nil {
				return err
			}
			rules = append(rules, t.rules(o, i)...)
		}
		if len(rules) > 0 {
			fmt.Fprintf(&text, "%s%s=%s\n", coll.Prefix, op, coll.Format(rules))
		}
	}
	if o.file == "" {
		fmt.Print(text.String())
		return nil
	}
	return os.WriteFile(o.file, []byte(text.String()), 0o644)
}

// measure times all algorithms of a collective on n ranks, in turn.
func measure(ctx context.Context, o *options, gorun, program, op string, n int) (*timing, error) {
	t := &timing{op: op, ranks: n, seconds: map[contender]map[int][]float64{}}
	all := contenders(op)
	for range o.rounds {
		for _, c := range all {
			args := []string{gorun, "-np", strconv.Itoa(n), "-cr", "-param", coll.Prefix + op + "=" + c.String()}
			if o.rpi != "" {
				args = append(args, "-rpi", o.rpi)
			}
			args = append(args, program, "-csv", "-ops", op, "-batches", "3", "-time", o.time.String(), "-sizes", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(o.sizes)), ","), "[]"))
			out, err := bench.Output(ctx, 5*time.Minute, nil, args...)
			if err != nil {
				return nil, err
			}
			lines, err := bench.ReadLines(out)
			if err != nil {
				return nil, err
			}
			for _, l := range lines {
				t.add(c, l.Bytes, l.Seconds)
			}
		}
	}
	t.print(os.Stderr, all)
	return t, nil
}
