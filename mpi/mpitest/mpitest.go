// Package mpitest runs MPI programs under `go test`. The ranks are goroutines of the test's process, and
// messages stay in memory.
//
//	func TestSum(t *testing.T) {
//		mpitest.Run(t, 4, func(c *mpi.Comm) error {
//			sum := []int{0}
//			if err := mpi.Allreduce(c, []int{c.Rank()}, sum, mpi.Sum); err != nil {
//				return err
//			}
//			if sum[0] != 6 {
//				return fmt.Errorf("sum is %d", sum[0])
//			}
//			return nil
//		})
//	}
//
// A rank fails the test if it returns an error, leaves requests over, panics, or calls t.FailNow or mpi.Abort.
// One that returns is as in Finalize: who waits for it in a collective gets mpi.ErrMismatch.
// The test names the rank and ends the others: their calls return mpi.ErrAborted. Nothing is left running
// afterwards, except the goroutines of ranks that hang outside the library: nothing can end these. Code under
// test must take its communicator from the function's argument: mpi.World is the process's.
//
// Restart tests that a program goes on from its images, Resize that it does with another number of ranks.
package mpitest

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// Run runs f on n ranks and returns when all have ended. If a rank fails, the test fails and ends, as by
// t.FailNow. A little before the timeout of go test -timeout, Run ends ranks that hang, and tells what each was
// waiting for.
func Run(t testing.TB, n int, f func(c *mpi.Comm) error) {
	t.Helper()
	report(t, n, f, patience(t))
}

// RunWithin is Run with a time limit of its own. After the limit, calls of the library fail. A rank that hangs
// elsewhere has another second to end. Then the test fails without it, and its goroutine is left behind.
func RunWithin(t testing.TB, limit time.Duration, n int, f func(c *mpi.Comm) error) {
	t.Helper()
	if left := patience(t); left > 0 {
		limit = min(limit, left)
	}
	report(t, n, f, limit)
}

func report(t testing.TB, n int, f func(c *mpi.Comm) error, limit time.Duration) {
	t.Helper()
	failures, err := run(n, f, limit)
	if err != nil {
		t.Errorf("mpitest: %v", err)
	}
	for _, x := range failures {
		if x.rank < 0 {
			t.Errorf("mpitest: %v", x.err)
		} else {
			t.Errorf("rank %d of %d: %v", x.rank, n, x.err)
		}
	}
	if err != nil || len(failures) > 0 {
		t.FailNow()
	}
}

// Example runs f on n ranks in a testable example. A rank that fails prints why on standard output, so the
// output differs from the expected one.
func Example(n int, f func(c *mpi.Comm) error) {
	failures, err := run(n, f, 0)
	if err != nil {
		fmt.Println(err)
	}
	for _, x := range failures {
		fmt.Printf("rank %d of %d: %v\n", x.rank, n, x.err)
	}
}

// failure tells how a rank failed.
type failure struct {
	rank int // -1: all ranks, because they hang
	err  error
}

// group is the ranks of one run.
type group struct {
	jobs   []*job.Job
	worlds []*mpi.Comm
	doing  []atomic.Int64 // by rank: the number of its first goroutine; 0: none yet; -1: it has returned

	mu     sync.Mutex
	failed []failure
}

// run returns the failures in the order in which they happened, without those that only follow from others.
// After limit, if it is not 0, the ranks count as hung. If some do not end even then, their goroutines and what
// all ranks use are left behind.
func run(n int, f func(c *mpi.Comm) error, limit time.Duration) ([]failure, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d ranks", n)
	}
	g := &group{doing: make([]atomic.Int64, n)}
	if err := g.open(n); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { g.rank(rank, f) })
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	if !g.wait(limit, over) {
		return g.failures(), nil
	}
	return g.failed, g.close()
}

// open makes the ranks and connects them.
func (g *group) open(n int) error {
	fabric := mem.NewFabric(n)
	addrs, modules := make([][]byte, n), make([]rpi.Module, n)
	for rank := range n {
		w := fabric.Waiter(rank)
		m := fabric.Module(rank)
		names := new(job.Names)
		e := engine.New(engine.Config{Rank: rank, Size: n, Modules: []rpi.Module{m}, Waiter: w, Name: names.Path})
		addr, err := m.Start(rpi.Env{Rank: rank, Size: n, Incarnation: 1, Sink: e.Sink(0)})
		if err != nil {
			return err
		}
		addrs[rank], modules[rank] = addr, m
		j := job.New(job.Config{Start: oob.StartConfig{Rank: rank, Size: n, Incarnation: 1, Crowded: n > runtime.NumCPU()}, Engine: e, Waiter: w, Names: names})
		g.jobs = append(g.jobs, j)
		c, err := world.New(j, func(text string) {
			g.fail(rank, errors.New(text))
			runtime.Goexit()
		})
		if err != nil {
			return err
		}
		g.worlds = append(g.worlds, c)
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
	g.doing[rank].Store(int64(waitreport.Self()))
	defer g.doing[rank].Store(-1)
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
	if err == nil {
		err = world.Leave(g.worlds[rank])
	}
	if err != nil {
		g.fail(rank, err)
	}
}

// fail notes a failure, unless it follows from another rank's, and ends the others.
func (g *group) fail(rank int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.failed {
		if x.rank == rank || errors.Is(err, mpi.ErrAborted) {
			return
		}
	}
	g.failed = append(g.failed, failure{rank, err})
	why := fmt.Errorf("%w: rank %d failed: %w", engine.ErrAborted, rank, err)
	if rank < 0 {
		why = fmt.Errorf("%w: the test hangs", engine.ErrAborted)
	}
	for other, j := range g.jobs {
		if other != rank {
			j.Fail(why)
		}
	}
}

// failures returns what was noted so far. Ranks that are left behind may fail later.
func (g *group) failures() []failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.failed)
}

// close releases everything, once all ranks have ended.
func (g *group) close() error {
	var account uint64
	for _, w := range g.worlds {
		account += world.Account(w)
	}
	errs := make([]error, len(g.jobs)+1)
	if account != 0 && len(g.failed) == 0 {
		errs[len(g.jobs)] = g.settle()
	}
	for _, w := range g.worlds {
		world.Shutdown(w)
	}
	for i, j := range g.jobs {
		errs[i] = j.Finalize(0, nil)
	}
	return errors.Join(errs...)
}

// settle returns an error if the ranks disagree about collective calls.
func (g *group) settle() error {
	var all sync.WaitGroup
	found := make([]error, len(g.worlds))
	for i, w := range g.worlds {
		all.Go(func() { found[i] = world.Settle(w) })
	}
	all.Wait()
	return found[0] // all say the same
}
