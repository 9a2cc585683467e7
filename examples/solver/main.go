// Solver solves a sparse symmetric positive definite system of equations by
// conjugate gradients on any number of ranks, and can be checkpointed at every
// iteration:
//
//	gorun -np 8 -cr ./examples/solver -poisson 64
//	gorun checkpoint -stop JOB
//	gorun restart latest
//
// The matrix comes from a Matrix Market file (-matrix FILE), is the 27-point
// operator on a cube (-poisson N), or, without either, the stiffness matrix of a
// steel lattice tower that is built in. The right-hand side is such that the
// solution is all ones. The last line of standard output is
//
//	result solver n=4884 iters=190 residual=4.7e-11 digest=0123456789abcdef
//
// with a digest over the bits of the solution: it depends on the matrix, -iters
// and -tol, but neither on the number of ranks nor on the architecture, nor on
// how often the job was stopped and restarted in between. With -times two lines
// before the result tell how long the iterations since the start took, and how
// much of that was not computation.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
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
	case o.poisson < 0 || o.poisson > maxPoisson:
		return fmt.Errorf("-poisson %d is not within 1..%d", o.poisson, maxPoisson)
	case o.iters < 0:
		return fmt.Errorf("-iters %d is negative", o.iters)
	case !(o.tol >= 0):
		return fmt.Errorf("-tol %g is not a tolerance", o.tol)
	}
	return nil
}

// read reads the matrix that was asked for.
func (o *options) read() (*block, error) {
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
	s, err := newSystem(c, rows, starts)
	if err != nil {
		return err
	}
	u := s.start()
	state := cr.On(c)
	if err := u.register(state, s); err != nil {
		return err
	}
	meter := newMeter(c, progress)
	if err := s.a.clock.Start(c); err != nil {
		return err
	}
	for u.iteration < o.iters && (o.tol == 0 || s.residual(u) > o.tol) {
		if err := state.Point(); err != nil {
			return err
		}
		if err := s.step(u); err != nil {
			return err
		}
		meter.show(u.iteration, s.residual(u))
		time.Sleep(o.slow)
	}
	s.a.clock.Stop()
	meter.done()
	if o.times {
		if err := s.a.clock.Print(c, stdout); err != nil {
			return err
		}
	}
	residual, err := s.trueResidual(u)
	if err != nil {
		return err
	}
	hex, err := digest(c, u.x)
	if err == nil && c.Rank() == 0 {
		_, err = fmt.Fprintf(stdout, "result solver n=%d iters=%d residual=%.3e digest=%s\n", rows.n, u.iteration, residual, hex)
	}
	return err
}
