package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/mpi"
)

// churn computes something that depends on all that went before, on all ranks,
// in memory that is always new, while the collector runs without pause. It ends
// by itself after -steps.
func churn(s *stage, c *mpi.Comm) (err error) {
	var log *os.File
	if s.log != "" && c.Rank() == 0 {
		if log, err = os.Create(s.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			grow(8, 1).sum()
			runtime.GC()
		}
	})
	defer wg.Wait()
	defer stop.Store(true)

	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	state := grow(6, uint64(c.Rank()))
	names := map[string]uint64{}
	for step := 1; step <= s.steps; step++ {
		sum := state.sum()
		got, _, err := exchange(c, sum, next, before)
		if err != nil {
			return err
		}
		all, err := digestOfAll(c, sum, step)
		if err != nil {
			return err
		}
		names[fmt.Sprint(sum%64)] += got ^ all
		state = rebuild(state, got+names[fmt.Sprint(got%64)])
		if log != nil && step%s.every == 0 {
			if _, err := fmt.Fprintf(log, "%d %x\n", step, sum); err != nil {
				return err
			}
		}
	}
	total := []uint64{state.sum()}
	if err := mpi.AllreduceInPlace(c, total, mpi.BXor); err != nil {
		return err
	}
	return s.result(c, total)
}

// litter leaves 64 MB behind, and keeps 4.
func litter(s *stage, c *mpi.Comm) error {
	const kept = 4 << 20 / 8
	mine := noise(kept, uint64(c.Rank()))
	want := slices.Clone(mine)
	last := noise(16*kept, 1)[16*kept-1]
	s.here(c.Rank())
	s.wait("go")
	if !slices.Equal(mine, want) || last == 0 {
		return errors.New("what was kept has changed")
	}
	return s.everybody(c)
}

// digestOfAll makes something of all ranks' values, by collectives of one word and
// now and then by those of many.
func digestOfAll(c *mpi.Comm, v uint64, step int) (uint64, error) {
	all := []uint64{v}
	if err := mpi.AllreduceInPlace(c, all, mpi.BXor); err != nil || step%25 != 0 {
		return all[0], err
	}
	n := c.Size()
	long := noise(n*(2000+step%7*1000), v)
	got := make([]uint64, len(long))
	err := errors.Join(
		mpi.Bcast(c, long[:step], step%n),
		mpi.Allreduce(c, long, got, mpi.Sum),
		mpi.Alltoall(c, got, long),
		mpi.Barrier(c),
		mpi.Scan(c, long[:step%100], got[:step%100], mpi.Sum),
		mpi.ReduceScatterBlock(c, got, long[:len(got)/n], mpi.BXor))
	for _, x := range long {
		all[0] = all[0]*31 + x
	}
	return all[0], err
}

// rebuild returns a new tree of another shape with other values.
func rebuild(t *tree, salt uint64) *tree {
	if t == nil {
		return nil
	}
	return &tree{rebuild(t.right, salt*3), rebuild(t.left, salt*5), t.value*0x9e3779b97f4a7c15 ^ salt}
}

// exchange sends a value on and receives one, in buffers of its own.
func exchange(c *mpi.Comm, v uint64, next, before int) (uint64, mpi.Status, error) {
	got := make([]uint64, 1)
	st, err := mpi.Sendrecv(c, []uint64{v}, next, 1, got, before, 1)
	return got[0], st, err
}
