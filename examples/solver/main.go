// Solver solves a sparse symmetric positive definite system of equations by conjugate gradients. It runs on any
// number of ranks, and can be checkpointed at every iteration:
//
//	gorun -np 8 -cr ./examples/solver -poisson 64
//	gorun checkpoint -stop JOB
//	gorun restart latest             # or on another number of ranks: gorun restart -np 3 latest
//
// The matrix comes from a Matrix Market file (-matrix FILE), or is the 27-point operator on a cube (-poisson
// N). Without either it is the built-in stiffness matrix of a steel lattice tower. The right-hand side is such
// that the solution is all ones. The last line of standard output is
//
//	result solver n=4884 iters=190 residual=4.7e-11 digest=0123456789abcdef
//
// with a digest over the bits of the solution. The digest depends on the matrix, -iters and -tol. It depends
// neither on the number of ranks nor on the architecture, nor on how often the job was stopped and restarted.
// With -times two lines before the result tell how long the iterations since the start took, and how much of
// that was not computation.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/examples/solver/cg"
	"github.com/gorun-mpi/gorun/mpi"
	"golang.org/x/term"
)

//go:embed tower.mtx
var tower []byte

// options are what the command line asks for.
type options struct {
	matrix  string        // file; "" is the tower
	poisson int           // points along an edge of the cube; 0: a matrix
	iters   int           // iterations at most
	tol     float64       // relative residual that ends the iteration
	slow    time.Duration // pause after each iteration
	times   bool
}

func main() {
	var o options
	flag.StringVar(&o.matrix, "matrix", "", "Matrix Market `file` (coordinate real symmetric)")
	flag.IntVar(&o.poisson, "poisson", 0, "27-point Poisson problem on a cube of `N`^3 points")
	flag.IntVar(&o.iters, "iters", 10000, "at most `N` iterations")
	flag.Float64Var(&o.tol, "tol", 1e-10, "stop when the residual has fallen to this part of the right-hand side; 0: do all -iters")
	flag.DurationVar(&o.slow, "slow", 0, "pause after each iteration, to watch a short run")
	flag.BoolVar(&o.times, "times", false, "also print how long the iterations took")
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "solver:", err)
		os.Exit(2)
	}
	progress := io.Discard
	if term.IsTerminal(int(os.Stderr.Fd())) {
		progress = os.Stderr
	}
	mpi.Run(func(c *mpi.Comm) error { return solve(c, o, os.Stdout, progress) })
}

func (o *options) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.matrix != "" && o.poisson != 0:
		return fmt.Errorf("-matrix and -poisson exclude each other")
	case o.poisson < 0 || o.poisson > cg.MaxPoisson:
		return fmt.Errorf("-poisson %d is not within 1..%d", o.poisson, cg.MaxPoisson)
	case o.iters < 0:
		return fmt.Errorf("-iters %d is negative", o.iters)
	case !(o.tol >= 0):
		return fmt.Errorf("-tol %g is not a tolerance", o.tol)
	}
	return nil
}

// read reads the matrix that was asked for.
func (o *options) read() (*cg.Block, error) {
	if o.matrix == "" {
		return readMatrix(bytes.NewReader(tower))
	}
	f, err := os.Open(o.matrix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := readMatrix(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.matrix, err)
	}
	return b, nil
}

// solve is the program of one rank.
func solve(c *mpi.Comm, o options, stdout, progress io.Writer) error {
	rows, starts, err := load(c, o)
	if err != nil {
		return err
	}
	s, m, err := prepare(c, rows, starts)
	if err != nil {
		return err
	}
	u := s.Start()
	state := cr.On(c)
	if err := register(c, starts, u); err != nil {
		return err
	}
	meter := newMeter(c, progress)
	if err := m.clock.Start(c); err != nil {
		return err
	}
	for u.Iteration < o.iters && (o.tol == 0 || s.Residual(u) > o.tol) {
		if err := state.Point(); err != nil {
			return err
		}
		if err := s.Step(u); err != nil {
			return err
		}
		meter.show(u.Iteration, s.Residual(u))
		time.Sleep(o.slow)
	}
	m.clock.Stop()
	meter.done()
	if o.times {
		if err := m.clock.Print(c, stdout); err != nil {
			return err
		}
	}
	residual, err := s.TrueResidual(u)
	if err != nil {
		return err
	}
	hex, err := digest(c, u.X)
	if err == nil && c.Rank() == 0 {
		_, err = fmt.Fprintf(stdout, "result solver n=%d iters=%d residual=%.3e digest=%s\n", rows.N, u.Iteration, residual, hex)
	}
	return err
}

// prepare makes the system of the rows that this rank has.
func prepare(c *mpi.Comm, rows *cg.Block, starts []int) (*cg.System, *messages, error) {
	a, err := cg.NewOperator(rows, starts)
	if err != nil {
		return nil, nil, err
	}
	m := &messages{c: c, neighbours: a.Neighbours}
	s, err := cg.NewSystem(a, m)
	return s, m, err
}

// register names the state to the checkpointer: the vectors by rows of the matrix, and what is the same on all ranks. After a
// restart u holds on return what it held at the checkpoint, on as many ranks as there are now.
func register(c *mpi.Comm, starts []int, u *cg.Solution) error {
	state, rows := cr.On(c), starts[c.Rank()+1]-starts[c.Rank()]
	for _, v := range []struct {
		name string
		own  []float64
	}{{"x", u.X}, {"r", u.R}, {"p", u.P[:rows]}} {
		vector, err := dist.Over(c, starts, 1, v.own)
		if err == nil {
			err = state.Register(v.name, vector)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(
		state.Register("iteration", dist.Replicated(&u.Iteration)),
		state.Register("rz", dist.Replicated(&u.RZ)), state.Register("rr", dist.Replicated(&u.RR)))
}
