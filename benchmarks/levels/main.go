// Levels compares where checkpoints lie: in memory, on the disk of the node, on a disk that nodes share.
//
//	go run ./benchmarks/levels
//	go run ./benchmarks/levels -node /scratch/me -shared /lustre/me -rounds 5
//
// stencil steers its own checkpoints (package cr/mirror): 1913 x 2017 numbers, a halo of 2, 49 steps, four processes that stand for nodes and a spare. Memory
// is that of the neighbour. heat and solver are unmodified, under gorun -cr=native; memory is that of the own node. Each runs, in turns,
//
//	without        checkpoints, undisturbed
//	with           them
//	killed         with them, and a rank killed, of stencil at step 33, of the others after three checkpoints: stencil goes on in the same processes with the spare,
//	               gorun restarts
//
// Figures are medians of seconds from the start of the command to its end, and of ratios to the run without within a round. The result is the same each time, or it
// fails. Without -node and -shared both are folders of this machine's temporary files.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/internal/job/control"
)

// options are what the command line asks for.
type options struct {
	node, shared string
	rounds       int
	every        time.Duration
	limit        time.Duration
	short        bool
	after        int // so many checkpoints a rank is killed
}

func main() {
	var o options
	flag.StringVar(&o.node, "node", "", "folder on a `disk` of this node")
	flag.StringVar(&o.shared, "shared", "", "folder on a `disk` that nodes share")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds")
	flag.DurationVar(&o.every, "every", time.Second, "from one checkpoint of heat and solver to the next")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "limit of one run")
	flag.BoolVar(&o.short, "short", false, "small problems and one round: to see that all of it works")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 {
		fmt.Fprintln(os.Stderr, "usage: levels [flags]")
		os.Exit(2)
	}
	o.after = 3
	if o.short {
		o.rounds, o.every, o.after = 1, 50*time.Millisecond, 1
	}
	bench.Main("levels", func(ctx context.Context) error { return run(ctx, &o, os.Stdout) })
}

// program is one that is compared.
type program struct {
	name        string
	args, small []string
	steers      bool // its own checkpoints
	exe, result string
}

var programs = []*program{
	{name: "stencil", args: []string{"-tcp", "4", "-spares", "1"}, small: []string{"-tcp", "4", "-spares", "1", "-rows", "300", "-columns", "300"}, steers: true},
	{name: "heat", args: []string{"-n", "2048", "-steps", "2500"}, small: []string{"-n", "512", "-steps", "2500"}},
	{name: "solver", args: []string{"-poisson", "64", "-iters", "700", "-tol", "0"}, small: []string{"-poisson", "16", "-iters", "3000", "-tol", "0"}},
}

var places = []string{"memory", "node's disk", "shared disk"}

func run(ctx context.Context, o *options, w io.Writer) (err error) {
	world, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	fmt.Fprintf(w, line, "program", "in", "without", "with", "killed", "with / without", "killed / without")
	for _, p := range programs {
		if p.exe, err = bench.Build(world.Bin, p.name, "examples/"+p.name); err != nil {
			return err
		}
		if o.short {
			p.args = p.small
		}
		if err := o.compare(ctx, world, p, w); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

const line = "%-8s %-12s %8s %8s %8s %15s %17s\n"

// compare runs a program in all ways, in turns.
func (o *options) compare(ctx context.Context, world *bench.World, p *program, w io.Writer) error {
	var without []float64
	with, killed := map[string][]float64{}, map[string][]float64{}
	for range o.rounds {
		t, err := o.once(ctx, world, p, "", false)
		if err != nil {
			return err
		}
		without = append(without, t)
		for _, place := range places {
			t, err := o.once(ctx, world, p, place, false)
			if err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			with[place] = append(with[place], t)
			if t, err = o.once(ctx, world, p, place, true); err != nil {
				return fmt.Errorf("%s, a rank killed: %w", place, err)
			}
			killed[place] = append(killed[place], t)
		}
	}
	for _, place := range places {
		var all []any
		for _, t := range [][]float64{without, with[place], killed[place], stats.Ratios(with[place], without), stats.Ratios(killed[place], without)} {
			all = append(all, fmt.Sprintf("%.2f", stats.Median(t)))
		}
		fmt.Fprintf(w, line, append([]any{p.name, place}, all...)...)
	}
	return nil
}

// once runs a program with its checkpoints in a place, "" for none, and tells how long it took.
func (o *options) once(ctx context.Context, world *bench.World, p *program, place string, kill bool) (seconds float64, err error) {
	dir, err := os.MkdirTemp(world.Dir, "run-")
	if err != nil {
		return 0, err
	}
	folders := map[string]string{"node's disk": o.node, "shared disk": o.shared}
	at := dir
	if f := folders[place]; f != "" {
		if at, err = os.MkdirTemp(f, "gorun-levels-"); err != nil {
			return 0, err
		}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(at)) }()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	args := p.command(world, o, place, dir, at)
	if kill && p.steers {
		args = append(args, "-kill", "1@33")
	}
	cmd := bench.Command(ctx, nil, args...)
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &errs
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	over := make(chan struct{})
	var ended error
	go func() {
		ended = cmd.Wait()
		seconds = time.Since(begin).Seconds()
		close(over)
	}()
	var shot error
	if kill && !p.steers {
		shot = shoot(ctx, cmd.Process.Pid, o.after, over)
	}
	<-over
	if err = errors.Join(shot, ended); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, errs.String())
	}
	return seconds, p.same(said.String())
}

// command is the command line.
func (p *program) command(world *bench.World, o *options, place, dir, at string) []string {
	if p.steers {
		args := append([]string{p.exe}, p.args...)
		switch place {
		case "":
			return append(args, "-every", "0")
		case "memory":
			return args
		}
		return append(args, "-dir", at)
	}
	args := []string{world.Gorun, "-np", "4", "-cr=native", "-restarts", "1"}
	switch place {
	case "":
		args = append(args, "-ckpt-dir", dir)
	case "memory":
		args = append(args, "-ckpt-dir", dir, "-ckpt-mirror", "none")
	case "node's disk":
		args = append(args, "-ckpt-dir", dir, "-ckpt-local", filepath.Join(at, "%n"))
	default:
		args = append(args, "-ckpt-dir", at)
	}
	if place != "" {
		args = append(args, "-ckpt-every", o.every.String(), "-keep", "2")
	}
	return append(append(args, p.exe), p.args...)
}

var digest = regexp.MustCompile(`(?m)^result .*digest=([0-9a-f]+)$`)

// same checks that the result is that of all runs.
func (p *program) same(said string) error {
	m := digest.FindStringSubmatch(said)
	if m == nil {
		return fmt.Errorf("no result:\n%s", said)
	}
	if p.result == "" {
		p.result = m[1]
	}
	if m[1] != p.result {
		return fmt.Errorf("result %s, and %s before", m[1], p.result)
	}
	return nil
}

// shoot kills a rank of a job once it has had some checkpoints.
func shoot(ctx context.Context, head, after int, over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return fmt.Errorf("it has ended before it had %d checkpoints: make it longer, or -every shorter", after)
		case <-time.After(20 * time.Millisecond):
		}
		jobs, err := control.Jobs()
		if err != nil {
			return err
		}
		for _, r := range jobs {
			s, err := r.Status(ctx)
			if r.PID == head && err == nil && s.Snapshots >= after && len(s.Ranks) > 1 {
				return syscall.Kill(s.Ranks[1].PID, syscall.SIGKILL)
			}
		}
	}
}
