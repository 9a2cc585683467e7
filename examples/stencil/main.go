// Stencil is a program that steers its own checkpoints: they lie in the memory of its neighbours (package cr/mirror). It changes a torus of 1913 x 2017
// numbers in 49 steps, each of which reads the neighbours up to a distance of two.
//
// With -tcp it runs as processes of its own, without gorun, each of which stands for a node. A process that is killed is replaced by a spare, and the others go on
// in the same processes:
//
//	stencil -tcp 4 -spares 1 -kill 1@33
//
// Without -tcp it is a program of mpi. The ranks of a job end together, so the checkpoints have to lie on disk as well:
//
//	gorun -np 4 -restarts 1 ./stencil -dir /scratch/me -policy none -kill 1@33
//
// The last line of standard output is
//
//	result stencil digest=0123456789abcdef
//
// It depends on -rows, -columns and -steps, and neither on the number of ranks nor on what was killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// options are what the command line asks for.
type options struct {
	rows, columns, steps int
	every                int    // steps from one checkpoint to the next
	policy               string // of their protection
	dir                  string // where they lie on disk as well; "": nowhere
	kills                kills
	tcp, spares          int
	wait                 time.Duration
	times                bool
}

// kills are ranks that kill themselves, each the first time that it comes to a step: 1@33,2@33.
type kills map[int]int

func (k kills) String() string { return fmt.Sprint(map[int]int(k)) }

func (k kills) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		var rank, step int
		if _, err := fmt.Sscanf(one, "%d@%d", &rank, &step); err != nil {
			return fmt.Errorf("%q is no RANK@STEP", one)
		}
		k[rank] = step
	}
	return nil
}

func main() {
	o := options{kills: kills{}}
	flag.IntVar(&o.rows, "rows", 1913, "rows of the torus")
	flag.IntVar(&o.columns, "columns", 2017, "columns of the torus")
	flag.IntVar(&o.steps, "steps", 49, "steps")
	flag.IntVar(&o.every, "every", 5, "steps from one checkpoint to the next; 0: none")
	flag.StringVar(&o.policy, "policy", "ring", "what protects them: ring, pairs, code (2+1) or none")
	flag.StringVar(&o.dir, "dir", "", "keep them in files under `DIR` as well")
	flag.Var(o.kills, "kill", "`RANK@STEP,...`: ranks that kill themselves at a step, if the program has not gone back by then")
	flag.IntVar(&o.tcp, "tcp", 0, "run as `N` processes without gorun")
	flag.IntVar(&o.spares, "spares", 0, "with -tcp: further processes, for those that are killed")
	flag.DurationVar(&o.wait, "wait", 10*time.Second, "with -tcp: how long the place of one that was killed waits for a spare")
	flag.BoolVar(&o.times, "times", false, "also print what the checkpoints have cost")
	flag.Parse()
	if o.rows < 1 || o.columns < 2*reach || o.steps < 0 || o.every < 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "stencil: a torus has at least 1 row and 4 columns, -steps and -every are not negative, and there are no other arguments")
		os.Exit(2)
	}
	var err error
	switch {
	case os.Getenv(envAddr) != "":
		err = asMember(o)
	case o.tcp > 0:
		err = asLauncher(o)
	default:
		asRank(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stencil:", err)
		os.Exit(1)
	}
}

func (o *options) mirror() (m mirror.Options, err error) {
	known := map[string]mirror.Policy{"ring": mirror.Ring(1), "pairs": mirror.Pairs{}, "code": mirror.Code{Data: 2, Parity: 1}, "none": mirror.None{}}
	if m.Policy = known[o.policy]; m.Policy == nil {
		return m, fmt.Errorf("policy %q: known are ring, pairs, code and none", o.policy)
	}
	if o.dir != "" {
		m.Target = mirror.File(o.dir)
	}
	return m, nil
}

// stencil is the function of a rank. It is called again after a failure.
func stencil(ctx context.Context, world *mirror.World, ranks messages, o options, out io.Writer) error {
	mo, err := o.mirror()
	if err != nil {
		return err
	}
	d, err := mirror.Open(world, "stencil", mo)
	if err != nil {
		return err
	}
	defer d.Close()
	p := newPart(o.rows, o.columns, world.Rank(), world.Size())
	step := 0
	if err := d.Region("step", &step); err != nil {
		return err
	}
	if err := d.Region("cells", &p.cells); err != nil {
		return err
	}
	epoch, err := d.Restore(ctx)
	if err != nil {
		return err
	}
	if epoch > 0 && world.Rank() == 0 {
		fmt.Fprintf(out, "back to step %d\n", step)
	}
	for ; step < o.steps; step++ {
		if o.every > 0 && step > 0 && step%o.every == 0 {
			if _, err := d.Commit(ctx); err != nil { // the one before
				return err
			}
			if err := d.Start(ctx); err != nil {
				return err
			}
		}
		if at, there := o.kills[world.Rank()]; there && at == step && epoch == 0 && world.Life() == 1 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := p.exchange(ctx, ranks); err != nil {
			return err
		}
		p.step(uint32(step))
	}
	total, err := ranks.sum(ctx, p.digest())
	if err != nil || world.Rank() != 0 {
		return err
	}
	if s := d.Stats(); o.times {
		fmt.Fprintf(out, "%d checkpoints of up to %d bytes a rank: start %v, sent after %v, whole after %v, commit %v, restore %v\n",
			s.Epochs, s.BytesMost, s.StartMost, s.SendMost, s.Whole, s.Commit, s.Restore)
	}
	_, err = fmt.Fprintf(out, "result stencil digest=%016x\n", total)
	return err
}
