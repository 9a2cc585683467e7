package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// timers: a ticker, a chain of timers, one that is far away and contexts with
// deadlines; the clock never goes backward.
func timers(s *stage, c *mpi.Comm) error {
	ticker := time.NewTicker(3 * time.Millisecond)
	defer ticker.Stop()
	far, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	near, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var chain atomic.Int64
	var again func()
	again = func() { chain.Add(1); time.AfterFunc(3*time.Millisecond, again) }
	again()

	var back atomic.Int64 // by how much the clock has gone back at most
	stop := make(chan struct{})
	var clock sync.WaitGroup
	clock.Go(func() {
		for last := time.Now(); ; {
			now := time.Now()
			if d := last.Sub(now); d > time.Duration(back.Load()) {
				back.Store(int64(d))
			}
			last = now
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	s.here(c.Rank())
	s.wait("go")
	before := chain.Load()
	for range 10 {
		<-ticker.C
	}
	for chain.Load() < before+10 {
		tick()
	}
	<-near.Done()
	close(stop)
	clock.Wait()
	if err := far.Err(); err != nil {
		return fmt.Errorf("an hour is over: %w", err)
	}
	if d := time.Duration(back.Load()); d > 0 {
		return fmt.Errorf("the clock has gone back by %v", d)
	}
	return s.everybody(c)
}

// tree is something for the garbage collector to find.
type tree struct {
	left, right *tree
	value       uint64
}

func grow(depth int, value uint64) *tree {
	if depth == 0 {
		return nil
	}
	return &tree{grow(depth-1, 2*value), grow(depth-1, 2*value+1), value}
}

func (t *tree) sum() uint64 {
	if t == nil {
		return 0
	}
	return t.value + 3*t.left.sum() + 5*t.right.sum()
}

// gc: the collector never rests.
func gc(s *stage, c *mpi.Comm) error {
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 3 {
		wg.Go(func() {
			old := grow(12, uint64(i))
			want := old.sum()
			for !stop.Load() {
				young := grow(10, uint64(i))
				young.left = old.left
				if old.sum() != want {
					errs <- errors.New("a tree has changed")
					return
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	s.here(c.Rank())
	s.wait("go")
	for range 5 {
		runtime.GC()
	}
	stop.Store(true)
	wg.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	return s.everybody(c)
}

// tight: a loop without a call, which the runtime can only stop by a signal to
// its thread, beside the collector, which has to.
func tight(s *stage, c *mpi.Comm) error {
	var stop atomic.Bool
	done := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			n++
		}
		done <- n
	}()
	s.here(c.Rank())
	for !s.open("go") {
		runtime.GC()
	}
	for range 5 {
		runtime.GC()
	}
	stop.Store(true)
	if n := <-done; n == 0 {
		return errors.New("the loop did not run")
	}
	return s.everybody(c)
}

// goroutines: ten thousand of them, a thousand in receives.
func goroutines(s *stage, c *mpi.Comm) error {
	const all, receivers = 10_000, 1_000
	if c.Rank() != 0 {
		s.here(c.Rank())
		s.wait("go")
		for i := range receivers {
			if err := mpi.SendValue(c, i, 0, i); err != nil {
				return err
			}
		}
		return s.everybody(c)
	}
	var wg sync.WaitGroup
	var in, wrong atomic.Int64
	gate := make(chan struct{})
	for i := range all {
		wg.Go(func() {
			if in.Add(1); i >= receivers {
				<-gate
			} else if v, _, err := mpi.RecvValue[int](c, 1, i); err != nil || v != i {
				wrong.Add(1)
			}
		})
	}
	for in.Load() < all {
		tick()
	}
	s.here(0)
	s.wait("go")
	close(gate)
	wg.Wait()
	if n := wrong.Load(); n > 0 {
		return fmt.Errorf("%d of %d receives failed", n, receivers)
	}
	return s.everybody(c)
}

// heavy: each rank holds 8 MB.
func heavy(s *stage, c *mpi.Comm) error {
	memory := noise(1<<20, uint64(c.Rank()))
	s.here(c.Rank())
	s.wait("go")
	return errors.Join(same(memory, uint64(c.Rank())), s.everybody(c))
}

// notify: the test lets the ranks go by a signal that they have asked for.
func notify(s *stage, c *mpi.Comm) error {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGUSR2)
	s.here(c.Rank())
	<-ch
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil { // would end it if it were not ignored
		return err
	}
	return s.everybody(c)
}

// stacks: deep stacks, and goroutines locked to their threads.
func stacks(s *stage, c *mpi.Comm) error {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	deep := make(chan uint64, 8)
	var in atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			deep <- descend(20_000, uint64(i), func() { in.Add(1); <-gate })
		})
	}
	for in.Load() < 8 {
		tick()
	}
	s.here(c.Rank())
	s.wait("go")
	close(gate)
	wg.Wait()
	sum := uint64(0)
	for range 8 {
		sum += <-deep
	}
	if want := uint64(8*20_000 + 28); sum != want {
		return fmt.Errorf("the stacks add up to %d, want %d", sum, want)
	}
	return s.everybody(c)
}

//go:noinline
func descend(n int, value uint64, bottom func()) uint64 {
	if n == 0 {
		bottom()
		return value
	}
	return descend(n-1, value, bottom) + 1
}
