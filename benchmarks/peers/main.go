// Peers compares the messages of gorun with those of other MPI libraries over
// TCP on the same machine:
//
//	go run ./benchmarks/peers
//
// It builds benchmarks/netpipe, and c/pingpong.c, which does the same, with
// mpicc.openmpi and mpicc.mpich where they are installed, and runs all of them
// in turn, several rounds, so that a machine that is faster at one time than at
// another favours nobody. It prints the median of each size, the ratio to the
// best of the others with its 95 % confidence interval (of the median of the
// ratios within the rounds), and the same for messages per second.
//
// -o FILE writes contender,mode,bytes,seconds,low,high for benchmarks/plot.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// options are what the command line asks for.
type options struct {
	rounds  int
	time    time.Duration // per size and round
	batches int
	sizes   []string
	modes   []string
	rpi     string
	out     string
	check   bool
}

func main() {
	var o options
	sizes := flag.String("sizes", "8,1024,8192,65536,1048576,4194304", "sizes of ping-pong messages in bytes")
	modes := flag.String("modes", "pingpong,window,stream", "pingpong, dirty, window and stream (8 bytes, 64 under way or blocking)")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds in which each library runs once")
	flag.DurationVar(&o.time, "time", 100*time.Millisecond, "measured time per size and round")
	flag.IntVar(&o.batches, "batches", 5, "batches per size and round")
	flag.StringVar(&o.rpi, "rpi", "tcp", "transport of gorun")
	flag.StringVar(&o.out, "o", "", "write all medians to `FILE`, comma separated")
	flag.BoolVar(&o.check, "check", false, "fail if a ratio misses the project's targets")
	flag.Parse()
	o.sizes, o.modes = strings.Split(*sizes, ","), strings.Split(*modes, ",")
	bench.Main("peers", func(ctx context.Context) error { return run(ctx, &o, os.Stdout) })
}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	all, err := contenders(ctx, world, o, w)
	if err != nil {
		return err
	}
	r := newResults(all)
	for round := range o.rounds {
		for _, mode := range o.modes {
			for i := range all {
				c := all[(i+round)%len(all)] // another one begins each round
				if c.failed {
					continue
				}
				lines, err := c.measure(ctx, mode, o)
				switch {
				case err == nil:
					r.add(c.name, lines)
				case c == all[0] || ctx.Err() != nil:
					return fmt.Errorf("%s: %w", c.name, err)
				default: // a library that polls without ever sleeping may not get through on a busy machine
					fmt.Fprintf(w, "%s is not compared any longer: %v\n", c.name, err)
					c.failed = true
					r.remove(c.name)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	missed := r.print(w)
	if o.out != "" {
		if err := os.WriteFile(o.out, r.csv(), 0o666); err != nil {
			return err
		}
	}
	if o.check && missed > 0 {
		return fmt.Errorf("%d of the targets missed", missed)
	}
	return nil
}

// contender is one library with the program built for it.
type contender struct {
	name   string
	env    []string
	failed bool // takes part no longer
	// args returns the command line for one mode.
	args func(mode string, sizes []string) []string
}

// sizesOf returns the sizes that a mode is measured with.
func sizesOf(mode string, o *options) []string {
	if mode == "window" || mode == "stream" {
		return []string{"8"}
	}
	return o.sizes
}

func (c *contender) measure(ctx context.Context, mode string, o *options) ([]bench.Line, error) {
	sizes := sizesOf(mode, o)
	limit := 20*time.Second + 10*time.Duration(len(sizes))*o.time
	out, err := bench.Output(ctx, limit, c.env, c.args(mode, sizes)...)
	if err != nil {
		return nil, err
	}
	lines, err := bench.ReadLines(out)
	if err != nil {
		return nil, err
	}
	var wanted []bench.Line // -rate of netpipe measures window and stream at once
	for _, l := range lines {
		l.Mode = strings.TrimPrefix(l.Mode, "pingpong-")
		if l.Mode == mode {
			wanted = append(wanted, l)
		}
	}
	if len(wanted) != len(sizes) {
		return nil, fmt.Errorf("%d measurements of %s for %d sizes", len(wanted), mode, len(sizes))
	}
	return wanted, nil
}

// contenders builds the programs of all libraries that are there.
func contenders(ctx context.Context, world *bench.World, o *options, w io.Writer) ([]*contender, error) {
	netpipe, err := bench.Build(world.Bin, "netpipe", "benchmarks/netpipe")
	if err != nil {
		return nil, err
	}
	flags := map[string][]string{"pingpong": nil, "dirty": {"-dirty"}, "window": {"-rate"}, "stream": {"-stream"}}
	ours := &contender{name: "gorun", args: func(mode string, sizes []string) []string {
		args := []string{world.Gorun, "-np", "2", "-rpi", o.rpi, netpipe, "-csv", "-time", o.time.String(),
			"-batches", fmt.Sprint(o.batches), "-sizes", strings.Join(sizes, ",")}
		return append(args, flags[mode]...)
	}}
	for _, mode := range o.modes {
		if _, ok := flags[mode]; !ok {
			return nil, fmt.Errorf("no mode %q", mode)
		}
	}
	all := []*contender{ours}
	for _, p := range peers {
		c, why, err := p.build(ctx, world.Bin, o)
		if err != nil {
			return nil, err
		}
		if c == nil {
			fmt.Fprintf(w, "%s is not compared: %s\n", p.name, why)
			continue
		}
		all = append(all, c)
	}
	return all, nil
}

// source is the C program's file name in the world.
func source(dir string) string { return filepath.Join(dir, "pingpong.c") }
