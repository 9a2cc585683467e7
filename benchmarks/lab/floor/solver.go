package main

import (
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/examples/solver/cg"
)

// mostCube keeps the rows of a cube within what a process sets up in a second.
const mostCube = 100

// startSolver: the program of examples/solver, whose processes put what the
// others need where these find it, and each adds the sums of all.
func startSolver(s *shared) doing { return s.solve(&exchange{shared: s}) }

// startSolverAlone: the same without the others, which is wrong and as much
// computation.
func startSolverAlone(s *shared) doing {
	d := s.solve(alone{})
	d.check = func() error { return nil }
	return d
}

// solve iterates on this process's rows.
func (s *shared) solve(m cg.Messages) doing {
	u, step := solver(s.Cube, s.Procs, s.Rank, m)
	return doing{step, func() error { return s.isSolution(u) }}
}

// solver is what one of size processes has of the system of a cube.
func solver(cube, size, rank int, m cg.Messages) (u *cg.Solution, step func()) {
	p := cg.Poisson(cube)
	starts, err := cg.Partition(p.Rows(), size, p.Nonzeros)
	if err != nil {
		log.Fatal(err)
	}
	a, err := cg.NewOperator(p.Block(starts[rank], starts[rank+1]), starts)
	if err != nil {
		log.Fatal(err)
	}
	if e, ok := m.(*exchange); ok {
		e.neighbours = a.Neighbours
	}
	system, err := cg.NewSystem(a, m)
	if err != nil {
		log.Fatal(err)
	}
	u = system.Start()
	return u, func() {
		if err := system.Step(u); err != nil {
			log.Fatal(err)
		}
	}
}

// isSolution compares a part with what one process alone computes.
func (s *shared) isSolution(u *cg.Solution) error {
	whole, step := solver(s.Cube, 1, 0, alone{})
	for range u.Iteration {
		step()
	}
	p := cg.Poisson(s.Cube)
	starts, err := cg.Partition(p.Rows(), s.Procs, p.Nonzeros)
	if err != nil {
		return err
	}
	if !slices.Equal(u.X, whole.X[starts[s.Rank]:starts[s.Rank+1]]) {
		return fmt.Errorf("another result after %d iterations", u.Iteration)
	}
	return nil
}

// alone are the messages of one that hears nothing.
type alone struct{}

func (alone) Fetch([]float64) error { return nil }
func (alone) Fetched() error        { return nil }
func (alone) Sum([]int64) error     { return nil }

// exchange are messages by flags and copies.
type exchange struct {
	*shared
	neighbours    []cg.Neighbour
	x             []float64
	fetches, sums uint64
}

// boxes are the shared buffers of a process: one for each of the others, and two
// for sums, used in turns. There is a sum between two fetches, so that what the
// last one has left is read.
func boxes(t task) int { return t.Procs + 2 }

// boxBytes is enough for the entries that one process needs of another, and for
// sums.
func boxBytes(t task) int { return 8 * max(t.Cube*t.Cube+t.Cube+1, cg.MostNumbers) }

func solverRoom(t task) int { return t.Procs * boxes(t) * boxBytes(t) }

func (e *exchange) box(mem []byte, rank, which int) []byte {
	return e.buffer(mem, rank*boxes(e.task)+which, boxBytes(e.task))
}

func (e *exchange) Fetch(x []float64) error {
	left := time.Now()
	for i := range e.neighbours {
		n := &e.neighbours[i]
		copy(asFloats(e.box(e.mem, e.Rank, n.Rank)), n.Pack(x))
	}
	e.fetches++
	e.set(mark, e.fetches)
	e.x = x
	e.outside += time.Since(left)
	return nil
}

func (e *exchange) Fetched() error {
	left := time.Now()
	for i := range e.neighbours {
		n := &e.neighbours[i]
		e.await(e.word(n.Rank, mark), e.fetches)
		copy(n.Halo(e.x), asFloats(e.box(e.seen, n.Rank, e.Rank)))
	}
	e.outside += time.Since(left)
	return nil
}

func (e *exchange) Sum(numbers []int64) error {
	left := time.Now()
	which := e.Procs + int(e.sums%2)
	copy(asInts(e.box(e.mem, e.Rank, which)), numbers)
	e.sums++
	e.set(done, e.sums)
	for k := 1; k < e.Procs; k++ {
		rank := (e.Rank + k) % e.Procs
		e.await(e.word(rank, done), e.sums)
		for i, v := range asInts(e.box(e.seen, rank, which))[:len(numbers)] {
			numbers[i] += v
		}
	}
	e.outside += time.Since(left)
	return nil
}
