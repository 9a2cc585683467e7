package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestSplit(t *testing.T) {
	mpitest.Run(t, 7, func(c *mpi.Comm) error {
		third, err := c.Split(c.Rank()%3, 0)
		if err != nil {
			return err
		}
		back, err := c.Split(9, -c.Rank())
		if err != nil {
			return err
		}
		color := mpi.Undefined
		if c.Rank() == 2 {
			color = 0
		}
		only, err := c.Split(color, 0)
		if err != nil {
			return err
		}
		if c.Rank() != 2 && (only != nil || only.Rank() != mpi.Undefined || only.Size() != 0) {
			return fmt.Errorf("a rank without colour is in %v", only)
		}
		if c.Rank() == 2 && only.Size() != 1 {
			return fmt.Errorf("alone with %d", only.Size())
		}
		if third.Rank() != c.Rank()/3 || third.Size() != []int{3, 2, 2}[c.Rank()%3] || third.String() != fmt.Sprintf("world/1:%d", c.Rank()%3) {
			return fmt.Errorf("%v: rank %d of %d", third, third.Rank(), third.Size())
		}
		if back.Rank() != 6-c.Rank() || back.String() != "world/2:9" {
			return fmt.Errorf("%v: rank %d", back, back.Rank())
		}
		for r := range third.Size() {
			w := third.WorldRank(r)
			if w != 3*r+c.Rank()%3 || third.FromWorld(w) != r {
				return fmt.Errorf("rank %d of %v is %d in the world, and back %d", r, third, w, third.FromWorld(w))
			}
		}
		if third.FromWorld((c.Rank()+1)%3) != mpi.Undefined || third.WorldRank(9) != mpi.Undefined || third.WorldRank(mpi.ProcNull) != mpi.ProcNull {
			return fmt.Errorf("ranks that are not there are translated")
		}
		return nil
	})
}

// Thousands of communicators, nested and side by side, keep their messages
// apart.
func TestManyCommunicators(t *testing.T) {
	const many = 3000
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		other := 1 - c.Rank()
		var comms []*mpi.Comm
		parent := c
		for i := range many {
			d, err := parent.Dup()
			if i%3 == 2 {
				d, err = parent.Split(i%5, 0)
			}
			if err != nil {
				return err
			}
			if i%100 == 0 {
				parent = d
			}
			comms = append(comms, d)
			if err := mpi.SendValue(d, i, other, 0); err != nil {
				return err
			}
		}
		slices.Reverse(comms)
		for i, d := range comms {
			v, _, err := mpi.RecvValue[int](d, mpi.AnySource, mpi.AnyTag)
			if err != nil || v != many-1-i {
				return fmt.Errorf("on %v: %d, %w", d, v, err)
			}
		}
		for _, d := range comms[:many/10] { // the others end with the job
			if err := d.Free(); err != nil {
				return err
			}
		}
		return mpi.Barrier(c)
	})
}

// Ten thousand communicators of all kinds, made, used and freed, leave nothing behind.
func TestCommunicatorsLeaveNothing(t *testing.T) {
	const rounds = 10_000 / 10 // each makes ten
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		var first uint64
		for i := range rounds {
			if err := tenCommunicators(c); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			if i != rounds/10 && i != rounds-1 { // the first ones fill pools, and what is kept of the last that were freed
				continue
			}
			if err := mpi.Barrier(c); err != nil {
				return err
			}
			if c.Rank() == 0 { // in a test all ranks have one heap
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if first == 0 {
					first = m.HeapAlloc
				} else if m.HeapAlloc > first+100<<10 { // ten bytes for each
					return fmt.Errorf("the heap has grown from %d to %d bytes", first, m.HeapAlloc)
				}
			}
			if err := mpi.Barrier(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// tenCommunicators makes communicators in all ways that there are, uses them, and frees them.
func tenCommunicators(c *mpi.Comm) error {
	dup, e1 := c.Dup()
	split, e2 := c.Split(0, -c.Rank())
	node, e3 := c.SplitType(mpi.SharedMemory, 0)
	created, e4 := c.Create(c.Group())
	of, e5 := c.CreateGroup(c.Group(), 7)
	hinted, e6 := c.DupWithInfo(mpi.Info{"coll.bcast": "binomial"})
	cart, e7 := c.Cart([]int{2}, []bool{true}, true)
	graph, e8 := c.DistGraph([]int{0, 1}, []int{0, 1}, nil)
	inter, e9 := mpi.IntercommCreate(c.Self(), 0, c, 1-c.Rank(), 5)
	if err := all(e1, e2, e3, e4, e5, e6, e7, e8, e9); err != nil {
		return err
	}
	merged, err := inter.Merge(false)
	if err != nil {
		return err
	}
	for _, d := range []*mpi.Comm{dup, split, node, created, of, hinted, cart.Comm, graph.Comm, merged} {
		other, got := 1-d.Rank(), make([]int, 1)
		sum, err := mpi.AllreduceValue(d, 1, mpi.Sum)
		if err == nil && sum != 2 {
			err = fmt.Errorf("on %v the sum is %d", d, sum)
		}
		err = all(err, err1(mpi.Sendrecv(d, []int{1}, other, 0, got, other, 0)), waited(mpi.Iallreduce(d, unit, got, mpi.Sum)),
			started(mpi.AllreduceInit(d, unit, got, mpi.Sum)))
		if err := all(err, d.Free()); err != nil {
			return err
		}
	}
	return all(mpi.Barrier(inter), inter.Free())
}

// A communicator may be freed with messages in it; requests are completed.
func TestFreeWithTraffic(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		other := 1 - c.Rank()
		buf := []int{0}
		r, err := mpi.Irecv(d, buf, other, 1)
		if err != nil {
			return err
		}
		if err := all(mpi.SendValue(d, 1, other, 9), mpi.SendValue(d, 2, other, 1), d.Free()); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil || buf[0] != 2 {
			return fmt.Errorf("%v %w", buf, err)
		}
		return mpi.Barrier(c)
	})
}

// Many goroutines of each rank are in calls at once.
func TestGoroutines(t *testing.T) {
	const workers, rounds = 16, 50
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		next, prev := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
		dups := make([]*mpi.Comm, workers)
		for w := range dups {
			var err error
			if dups[w], err = c.Dup(); err != nil {
				return err
			}
		}
		errs := make([]error, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { errs[w] = work(c, dups[w], w, next, prev, rounds) })
		}
		wg.Wait()
		return all(errs...)
	})
}

func work(c, own *mpi.Comm, w, next, prev, rounds int) error {
	for i := range rounds {
		send, recv := values(1+i*101%3000, w+i, func(i int) int { return i }), make([]int, 3000)
		st, err := mpi.Sendrecv(c, send, next, w, recv, prev, w)
		if err := all(err, wantStatus(st, prev, w, len(send)), want("message", recv[:st.Count], send)); err != nil {
			return err
		}
		sum := []int{0}
		if err := mpi.Allreduce(own, []int{w * i}, sum, mpi.Sum); err != nil || sum[0] != own.Size()*w*i {
			return fmt.Errorf("sum %d, %w", sum[0], err)
		}
	}
	return nil
}

// Collectives of several goroutines on one communicator are a sequence.
func TestCollectivesTakeTurns(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				for range 30 {
					sum := []int{0}
					err := mpi.Allreduce(c, []int{c.Rank()}, sum, mpi.Sum)
					if errs[i] = err; err != nil || sum[0] != 3 {
						errs[i] = fmt.Errorf("sum %d, %w", sum[0], err)
						return
					}
				}
			})
		}
		wg.Wait()
		return all(errs...)
	})
}

// Long messages with the same tag are under way on several duplicates, and are received in another order than they were
// sent in.
func TestLongMessagesOnDuplicates(t *testing.T) {
	const dups, n = 5, 30_000
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		ds := make([]*mpi.Comm, dups)
		var rs []mpi.Request
		for i := range ds {
			var err error
			if ds[i], err = c.Dup(); err != nil {
				return err
			}
			rs = append(rs, must(mpi.Isend(ds[i], values(n, 2*i+c.Rank(), func(i int) int { return i }), 1-c.Rank(), 0)))
		}
		in := make([]int, n)
		for i := dups - 1; i >= 0; i-- {
			st, err := mpi.Recv(ds[i], in, mpi.AnySource, mpi.AnyTag)
			if err := all(err, wantStatus(st, 1-c.Rank(), 0, n), want("message", in, values(n, 2*i+1-c.Rank(), func(i int) int { return i }))); err != nil {
				return err
			}
		}
		_, err := mpi.Waitall(rs)
		for _, d := range ds {
			err = errors.Join(err, d.Free())
		}
		return err
	})
}

// How two communicators compare: the same one, the same ranks in the same order, in another order, other ranks.
func TestCompare(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		dup, back, half := must(c.Dup()), must(c.Split(0, -c.Rank())), must(c.Split(c.Rank()%2, 0))
		inter := must(mpi.IntercommCreate(half, 0, c, 1-c.Rank()%2, 0))
		again, flipped := must(inter.Dup()), must(inter.Split(0, -c.Rank()))
		merged := must(inter.Merge(c.Rank()%2 == 1))
		for name, x := range map[string]struct {
			a, b *mpi.Comm
			want mpi.Comparison
		}{
			"itself":                 {c, c, mpi.Ident},
			"a view of it":           {c, c.WithContext(t.Context()), mpi.Ident},
			"a duplicate":            {c, dup, mpi.Congruent},
			"backwards":              {c, back, mpi.Similar},
			"a half":                 {c, half, mpi.Unequal},
			"merged in other order":  {c, merged, mpi.Similar},
			"groups":                 {inter, inter, mpi.Ident},
			"a duplicate of groups":  {inter, again, mpi.Congruent},
			"groups backwards":       {inter, flipped, mpi.Similar},
			"groups and their ranks": {inter, c, mpi.Unequal},
			"groups and one of them": {half, inter, mpi.Unequal},
		} {
			got, err := x.a.Compare(x.b)
			back, berr := x.b.Compare(x.a)
			if err := all(err, berr, want(name, []mpi.Comparison{got, back}, []mpi.Comparison{x.want, x.want})); err != nil {
				return err
			}
		}
		return errors.Join(merged.Free(), flipped.Free(), again.Free(), inter.Free(), half.Free(), back.Free(), dup.Free())
	})
}

// Goroutines of a rank make and free communicators at the same time, each of its own one.
func TestConcurrentDuplicates(t *testing.T) {
	const workers, rounds = 4, 10
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		errs := make([]error, workers)
		var wg sync.WaitGroup
		for w := range errs {
			own := must(c.Dup())
			wg.Go(func() {
				for i := range rounds {
					d, err1 := own.Dup()
					s, err2 := own.Split(0, (c.Rank()+i+w)%3)
					if errs[w] = all(err1, err2); errs[w] != nil {
						return
					}
					sum, err := mpi.AllreduceValue(s, 100*w+i, mpi.Sum)
					errs[w] = all(err, want("sum", []int{sum}, []int{3 * (100*w + i)}), mpi.Barrier(d), d.Free(), s.Free())
				}
				errs[w] = all(errs[w], own.Free())
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}
