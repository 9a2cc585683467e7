// Compare races gorun with every MPI library that is found on the machine:
//
//	go run ./benchmarks/compare
//
// It builds the same tests for all. For gorun these are netpipe, collectives, an empty program, examples/heat,
// examples/solver, apps/prk/stencil and cg, is and mg of apps/npb, started with -cr. For the others c/*.c does the same, with mpicc.openmpi,
// mpicc.mpich and mpicc.lam. The contenders take turns, and another one begins each round. So a machine that is faster at
// one time than at another favours nobody. NetPIPE (NPopenmpi, NPtcp), if installed, is shown beside them.
//
// It prints medians over the rounds with their spread (the distance of the quartiles). It prints the median of
// the ratios within the rounds with its 95 % confidence interval, and which of the project's targets are
// reached. The same with plots goes to report.html in the folder -o, and all single samples to samples.csv.
// With -add, rounds are added to those that are there already.
//
// The tests are those of -tests:
//
//   - pingpong
//   - column: the same of columns of a matrix, as MPI's vector type and as a mpi.View
//   - dirty: the sender rewrites a word of each cache line before each send
//   - stream: one direction, blocking
//   - window: one direction, 64 messages of 8 bytes under way
//   - collectives
//   - start: from the start to the end of the empty program
//   - heat, solver, stencil, cg, is, mg: time of an iteration, and the part of it that is not computation
//
// With -beside N as many endless loops run meanwhile, as on a machine that others use too.
//
// The first five are raced over each transport, the others over the first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// options are what the command line asks for.
type options struct {
	tests      []string
	transports []string
	hosts      string // nodes to run on, with commas; "": this one
	rpi        string // gorun's transports where the others use shared memory
	peers      []string
	sizes      []int
	ops        string
	opSizes    []int
	ranks      []int // nil: each test's own
	rounds     int
	time       time.Duration // per size and round
	batches    int
	limit      time.Duration // for one program
	out        string
	add        bool
	check      bool
	short      bool
	beside     int // endless loops that run meanwhile
}

func main() {
	o := arguments.Parse("compare", parse)
	bench.Main("compare", func(ctx context.Context) error { return run(ctx, o, os.Stdout) })
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	tests := f.String("tests", strings.Join(testNames(), ","), "what to measure")
	transports := f.String("transports", "shm,tcp", "what the messages go through")
	peers := f.String("peers", strings.Join(peerNames(), ","), "whom to race with, where installed")
	sizes := f.String("sizes", "8,64,1024,2048,4096,8192,16384,65536,262144,1048576,4194304,16777216", "sizes of messages in bytes")
	opSizes := f.String("opsizes", "8,1048576", "sizes of collectives in bytes")
	ranks := f.String("ranks", "", "numbers of ranks, instead of 2,4,16,64 for collectives, 2,16,64 for start, 2,8,64 for heat and solver, 1,2,4 for the other programs")
	f.StringVar(&o.rpi, "rpi", "shm,tcp", "gorun's `transports` where the others use shared memory")
	f.StringVar(&o.hosts, "hosts", "", "`nodes` to run on, each with a slot per rank, reached by ssh: a,b (openmpi, mpich); TMPDIR has to be a folder that all of them see")
	f.StringVar(&o.ops, "ops", strings.Join(collectiveTests, ","), "collectives")
	f.IntVar(&o.rounds, "rounds", 5, "rounds in which each contender runs once; 0: only report what -add finds")
	f.DurationVar(&o.time, "time", 50*time.Millisecond, "measured time per size and round; four times that with more ranks than CPUs")
	f.IntVar(&o.batches, "batches", 5, "batches per size and round")
	f.DurationVar(&o.limit, "limit", time.Minute, "a program that runs longer is ended, and what it measured until then counts for this round alone")
	f.StringVar(&o.out, "o", ".gorun/compare", "`folder` for report.html and samples.csv")
	f.IntVar(&o.beside, "beside", 0, "run beside `N` endless loops, as on a machine that others use too")
	f.BoolVar(&o.add, "add", false, "add to the samples that are in the folder")
	f.BoolVar(&o.check, "check", false, "fail if a target is missed")
	f.BoolVar(&o.short, "short", false, "see that everything works, within seconds; the figures mean nothing")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.rounds < 0 || o.beside < 0 || o.batches < 1 || o.time <= 0 {
		return nil, fmt.Errorf("bad argument; see -help")
	}
	if o.short {
		*sizes, *opSizes, o.rounds, o.time, o.batches = "8,65536", "8,65536", 1, 2*time.Millisecond, 2
	}
	for _, list := range []struct {
		to   *[]int
		text string
	}{{&o.sizes, *sizes}, {&o.opSizes, *opSizes}, {&o.ranks, *ranks}} {
		for text := range strings.SplitSeq(list.text, ",") {
			if list.text == "" {
				break
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q is not a positive number", text)
			}
			*list.to = append(*list.to, n)
		}
	}
	if o.rounds == 0 && !o.add {
		return nil, fmt.Errorf("-rounds 0 only reports what -add finds, and there is no -add")
	}
	var errs [4]error
	o.tests, errs[0] = arguments.Names("test", *tests, testNames())
	o.transports, errs[1] = arguments.Names("transport", *transports, transportOrder)
	if *peers != "" {
		o.peers, errs[2] = arguments.Names("peer", *peers, peerNames())
	}
	_, errs[3] = arguments.Names("collective", o.ops, collectiveTests)
	return o, errors.Join(errs[:]...)
}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	all := samples{}
	if o.add {
		if all, err = readSamples(o.out); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return err
	}
	if err := arguments.Writable(filepath.Join(o.out, samplesFile), filepath.Join(o.out, reportFile)); err != nil {
		return err
	}
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if o.rounds > 0 {
		if err := race(ctx, world, o, all, w); err != nil {
			return err
		}
	}
	r := newReport(all)
	r.print(w)
	if o.short {
		fmt.Fprintln(w, "\nThis was -short: the figures mean nothing.")
	}
	if err := errors.Join(all.write(o.out), r.write(ctx, world, o.out, w)); err != nil {
		return err
	}
	if o.check && r.missed > 0 {
		return fmt.Errorf("%d of the targets missed", r.missed)
	}
	return nil
}

// mostFailures is how often a library may fail in a test before it is left out. A start
// may fail by chance; but one that polls without ever sleeping may never get through
// with many ranks.
const mostFailures = 2

// race runs all rounds and adds their samples to all.
func race(ctx context.Context, world *bench.World, o *options, all samples, w io.Writer) (err error) {
	contenders, closing, err := assemble(ctx, world, o, w)
	defer func() { err = errors.Join(err, closing()) }()
	if err != nil {
		return err
	}
	stop, err := startBeside(o.beside)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	first := all.rounds()
	for round := range o.rounds {
		for _, u := range plan(o) {
			for i := range contenders {
				c := contenders[(i+first+round)%len(contenders)] // another one begins each round
				if c.failed[u.id()] == mostFailures {
					continue
				}
				figures, err := c.measure(ctx, u)
				for _, f := range figures {
					all.add(f.key, c.name, first+round, f.seconds)
				}
				switch {
				case err == nil:
				case c == contenders[0] || ctx.Err() != nil:
					return fmt.Errorf("%s: %w", c.name, err)
				default:
					c.failed[u.id()]++
					then := "goes on"
					if c.failed[u.id()] == mostFailures {
						then = "takes no further part"
					}
					fmt.Fprintf(w, "%s %s in %v: %v\n", c.name, then, u.id(), err)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	return nil
}
