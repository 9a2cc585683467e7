package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// Two runs of loop that differ only in their number of messages: the difference
// leaves out what start and end take.
const (
	few  = 2000
	many = 102000
)

// instructions counts and prints what one message takes in both builds.
func instructions(ctx context.Context, world *bench.World, w io.Writer) error {
	if _, err := exec.LookPath("valgrind"); err != nil {
		fmt.Fprintln(w, "instructions are not counted: valgrind is not installed")
		return nil
	}
	fmt.Fprintf(w, "%9s %12s %12s   %s\n", "bytes", "with", "without", "instructions of one message, send to receive, in the library")
	var exe [2]string
	var err error
	if exe[with], err = bench.Build(world.Bin, "loop", "benchmarks/overhead/loop"); err != nil {
		return err
	}
	if exe[without], err = bench.Build(world.Bin, "loop-nocr", "benchmarks/overhead/loop", tag); err != nil {
		return err
	}
	for _, size := range []int{8, 1024, 16384} {
		var each [2]float64
		for b := range each {
			if each[b], err = perMessage(ctx, exe[b], size); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%9d %12.1f %12.1f   %+.1f, %.4f\n", size, each[with], each[without], each[with]-each[without], each[with]/each[without])
	}
	return nil
}

// perMessage returns the instructions of one message.
func perMessage(ctx context.Context, exe string, size int) (float64, error) {
	short, err := callgrind(ctx, exe, few, size)
	if err != nil {
		return 0, err
	}
	long, err := callgrind(ctx, exe, many, size)
	if err != nil {
		return 0, err
	}
	return float64(long-short) / (many - few), nil
}

// limit is how long one run may take.
const limit = 2 * time.Minute

// tries is how often one run is made until callgrind survives it.
const tries = 4

var collected = regexp.MustCompile(`Collected : (\d+)`)

// callgrind returns the instructions of a whole run.
func callgrind(ctx context.Context, exe string, count, size int) (int64, error) {
	out, err := underCallgrind(ctx, "/dev/null", nil, exe, "-count", strconv.Itoa(count), "-size", strconv.Itoa(size))
	if err != nil {
		return 0, err
	}
	m := collected.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no count of instructions in %q", out)
	}
	return strconv.ParseInt(m[1], 10, 64)
}

// underCallgrind runs a program and returns its output. Collection and preemption
// are off: when they happen depends on time, and callgrind does not survive a
// signal at the wrong moment. A run that it did not survive is made again.
func underCallgrind(ctx context.Context, file string, flags []string, program ...string) (string, error) {
	args := append([]string{"valgrind", "--tool=callgrind", "--callgrind-out-file=" + file, "--log-fd=1"}, flags...)
	var out string
	var err error
	for range tries {
		out, err = bench.Output(ctx, limit, []string{"GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1"}, append(args, program...)...)
		if err == nil {
			break
		}
	}
	return out, err
}
