// Package mpitest runs MPI programs under `go test`: the ranks are goroutines of
// the test's process, over an in-memory transport.
//
//	func TestSum(t *testing.T) {
//		mpitest.Run(t, 4, func(c *mpi.Comm) error {
//			sum := []int{0}
//			if err := mpi.Allreduce(c, []int{c.Rank()}, sum, mpi.Sum[int]()); err != nil {
//				return err
//			}
//			if sum[0] != 6 {
//				return fmt.Errorf("sum is %d", sum[0])
//			}
//			return nil
//		})
//	}
//
// A rank that returns an error, panics, calls t.FailNow or mpi.Abort fails the
// test, which names it, and ends the others: their calls return
// mpi.ErrAborted. Nothing is left running afterwards. Code under test must take
// its communicator from the function's argument: mpi.World is the process's.
package mpitest

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// Run runs f on n ranks and returns when all have ended. If a rank fails, the
// test fails and ends, as by t.FailNow.
func Run(t testing.TB, n int, f func(c *mpi.Comm) error) {
	t.Helper()
	failures, err := run(n, f)
	if err != nil {
		t.Errorf("mpitest: %v", err)
	}
	for _, x := range failures {
		t.Errorf("rank %d of %d: %v", x.rank, n, x.err)
	}
	if err != nil || len(failures) > 0 {
		t.FailNow()
	}
}

// Example runs f on n ranks in a testable example: a rank that fails prints why
// on standard output, where it spoils the expected output.
func Example(n int, f func(c *mpi.Comm) error) {
	failures, err := run(n, f)
	if err != nil {
		fmt.Println(err)
	}
	for _, x := range failures {
		fmt.Printf("rank %d of %d: %v\n", x.rank, n, x.err)
	}
}

// failure is how a rank ended that did not end well.
type failure struct {
	rank int
	err  error
}

// group is the ranks of one run.
type group struct {
	jobs   []*job.Job
	worlds []*mpi.Comm

	mu     sync.Mutex
	failed []failure
}

// run returns the failures that are not only consequences of others, in the
// order in which they happened.
func run(n int, f func(c *mpi.Comm) error) ([]failure, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d ranks", n)
	}
	g := &group{}
	if err := g.open(n); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { g.rank(rank, f) })
	}
	wg.Wait()
	return g.failed, g.close()
}

// open makes the ranks and connects them.
func (g *group) open(n int) error {
	fabric := mem.NewFabric(n)
	addrs, modules := make([][]byte, n), make([]rpi.Module, n)
	for rank := range n {
		w := fabric.Waiter(rank)
		m := fabric.Module(rank)
		e := rpi.New(rpi.Config{Rank: rank, Size: n, Modules: []rpi.Module{m}, Waiter: w})
		addr, err := m.Start(rpi.Env{Rank: rank, Size: n, Incarnation: 1, Sink: e.Sink(0)})
		if err != nil {
			return err
		}
		addrs[rank], modules[rank] = addr, m
		j := job.New(job.Config{Start: oob.StartConfig{Rank: rank, Size: n, Incarnation: 1, Crowded: n > runtime.NumCPU()}, Engine: e, Waiter: w})
		g.jobs = append(g.jobs, j)
		g.worlds = append(g.worlds, mpi.NewWorld(j, func(text string) {
			g.fail(rank, errors.New(text))
			runtime.Goexit()
		}))
	}
	for rank, m := range modules {
		if err := m.Peers(addrs); err != nil {
			return err
		}
		g.jobs[rank].Engine.Start()
	}
	return nil
}

// rank runs f and notes how it ended.
func (g *group) rank(rank int, f func(c *mpi.Comm) error) {
	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			g.fail(rank, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		case !returned:
			g.fail(rank, errors.New("it ended without returning (FailNow, Fatal or Goexit)"))
		}
	}()
	err := f(g.worlds[rank])
	returned = true
	if err != nil {
		g.fail(rank, err)
	}
}

// fail notes a failure, unless it follows from another's, and ends the others.
func (g *group) fail(rank int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.failed {
		if x.rank == rank || errors.Is(err, mpi.ErrAborted) {
			return
		}
	}
	g.failed = append(g.failed, failure{rank, err})
	for other, j := range g.jobs {
		if other != rank {
			j.Fail(fmt.Errorf("%w: rank %d failed: %w", rpi.ErrAborted, rank, err))
		}
	}
}

// close releases everything, once all ranks have ended.
func (g *group) close() error {
	for _, w := range g.worlds {
		mpi.Shutdown(w)
	}
	errs := make([]error, len(g.jobs))
	for i, j := range g.jobs {
		errs[i] = j.Finalize()
	}
	return errors.Join(errs...)
}
