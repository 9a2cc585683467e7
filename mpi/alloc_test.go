//go:build !race

package mpi_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Nothing is allocated per message or collective on the steady path. Both ranks
// count, as the counter is the process's: the average must round to none. Pools
// may still grow when the scheduler lets a rank run ahead as never before, so the
// best of several windows counts: what allocates does so in each of them. Where
// one rank could run ahead of the other, whose unexpected messages then pile up,
// a barrier keeps them together.
func TestAllocations(t *testing.T) {
	defer mpi.WatchSeldom()()
	f := func(n int) []float64 { return make([]float64, n) }
	small, large := f(8), f(20_000)
	sum := mpi.Sum[float64]
	reqs := make([][2]mpi.Request, 2)
	for _, x := range []struct {
		name string
		call func(c *mpi.Comm, b *buffers) error
	}{
		{"Send, Recv", func(c *mpi.Comm, b *buffers) error {
			if c.Rank() == 0 {
				err := mpi.Send(c, b.small, 1, 0)
				if err == nil {
					_, err = mpi.Recv(c, b.small, 1, 0)
				}
				return err
			}
			_, err := mpi.Recv(c, b.small, mpi.AnySource, mpi.AnyTag)
			if err == nil {
				err = mpi.Send(c, b.small, 0, 0)
			}
			return err
		}},
		{"Sendrecv", func(c *mpi.Comm, b *buffers) error {
			_, err := mpi.Sendrecv(c, b.small, 1-c.Rank(), 0, b.small2, 1-c.Rank(), 0)
			return err
		}},
		{"Sendrecv of long messages", func(c *mpi.Comm, b *buffers) error {
			_, err := mpi.Sendrecv(c, b.large, 1-c.Rank(), 0, b.large2, 1-c.Rank(), 0)
			return err
		}},
		{"values", func(c *mpi.Comm, b *buffers) error {
			err := mpi.SendValue(c, point{X: 1}, 1-c.Rank(), 0)
			if err == nil {
				_, _, err = mpi.RecvValue[point](c, 1-c.Rank(), 0)
			}
			return err
		}},
		{"requests", func(c *mpi.Comm, b *buffers) (err error) {
			rs := reqs[c.Rank()][:]
			if rs[0], err = mpi.Irecv(c, b.small, 1-c.Rank(), 0); err != nil {
				return err
			}
			if rs[1], err = mpi.Isend(c, b.small2, 1-c.Rank(), 0); err != nil {
				return err
			}
			if _, _, err = mpi.Waitany(rs); err != nil {
				return err
			}
			return mpi.WaitallInto(rs, nil)
		}},
		{"Barrier", func(c *mpi.Comm, b *buffers) error { return mpi.Barrier(c) }},
		{"Bcast", func(c *mpi.Comm, b *buffers) error { return all(mpi.Bcast(c, b.small, 0), mpi.Barrier(c)) }},
		{"Allreduce", func(c *mpi.Comm, b *buffers) error { return mpi.Allreduce(c, b.small, b.small2, sum) }},
		{"long Allreduce", func(c *mpi.Comm, b *buffers) error { return mpi.AllreduceInPlace(c, b.large, sum) }},
		{"Alltoall", func(c *mpi.Comm, b *buffers) error { return mpi.Alltoall(c, b.small, b.small2) }},
		{"Allgather", func(c *mpi.Comm, b *buffers) error { return mpi.Allgather(c, b.small[:4], b.small2) }},
		{"Gather", func(c *mpi.Comm, b *buffers) error {
			return all(mpi.Gather(c, b.small[:4], b.small2, 1), mpi.Barrier(c))
		}},
		{"Scan", func(c *mpi.Comm, b *buffers) error { return all(mpi.Scan(c, b.small, b.small2, sum), mpi.Barrier(c)) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				b := &buffers{f(len(small)), f(len(small)), f(len(large)), f(len(large))}
				return allocatesNothing(c, 300, 1000, func() error { return x.call(c, b) })
			})
		})
	}
}

// allocatesNothing makes calls on all ranks. Only the first rank may allocate. Rank 0 counts, and says when a
// window was without allocations.
func allocatesNothing(c *mpi.Comm, warm, runs int, call func() error) error {
	const windows = 20
	var before, after runtime.MemStats
	least := uint64(1 << 62)
	none := []bool{false}
	for range windows {
		for i := range warm + runs {
			if i == warm && c.Rank() == 0 {
				runtime.ReadMemStats(&before)
			}
			if err := call(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			runtime.ReadMemStats(&after)
			least = min(least, after.Mallocs-before.Mallocs)
			none[0] = least <= uint64(runs)/10
		}
		if err := mpi.Bcast(c, none, 0); err != nil || none[0] {
			return err
		}
	}
	if c.Rank() == 0 {
		return fmt.Errorf("%d allocations in %d rounds", least, runs)
	}
	return nil
}

// Nor does any collective of buffers of a common size, on two ranks or several,
// with as many to each CPU as there may be.
func TestCollectivesAllocateNothing(t *testing.T) {
	defer mpi.WatchSeldom()()
	for _, n := range []int{2, 5} {
		for _, size := range []int{1, 100, 10_000, 130_000} {
			if testing.Short() && size > 10_000 {
				continue
			}
			for _, table := range tables[:2] {
				mpitest.Run(t, n, func(c *mpi.Comm) error {
					if err := mpi.SetChoice(c, table, nil); err != nil {
						return err
					}
					a := newArguments(c, size)
					runs := max(20, min(500, 2_000_000/(size*n)))
					for _, x := range collectives {
						err := allocatesNothing(c, runs/2, runs, func() error { return all(x.call(c, a), mpi.Barrier(c)) })
						if err != nil {
							return fmt.Errorf("%s of %d elements, table %v: %w", x.name, size, table, err)
						}
					}
					return nil
				})
			}
		}
	}
}

// Nor do exchanges with neighbours.
func TestNeighboursAllocateNothing(t *testing.T) {
	defer mpi.WatchSeldom()()
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		cart, err := c.Cart([]int{2, 1}, []bool{true, true}, false)
		if err != nil {
			return err
		}
		send, recv, field, counts := make([]float64, 40), make([]float64, 40), make([]float64, 36), []int{10, 10, 10, 10}
		halo, err := mpi.NewHalo(cart, field, []int{6, 6}, 1, true)
		if err != nil {
			return err
		}
		for name, call := range []func() error{
			halo.Exchange,
			func() error { return mpi.NeighborAllgather(cart, send[:10], recv) },
			func() error { return mpi.NeighborAlltoall(cart, send, recv) },
			func() error { return mpi.NeighborAlltoallv(cart, send, counts, nil, recv, counts, nil) },
		} {
			if err := allocatesNothing(c, 100, 300, call); err != nil {
				return fmt.Errorf("call %d: %w", name, err)
			}
		}
		return nil
	})
}

// arguments are buffers of k elements, or n blocks that have k together.
type arguments struct {
	k                int
	send, recv       []float64
	block, all, more []float64
	counts           []int
	op               mpi.Op[float64]
}

func newArguments(c *mpi.Comm, k int) *arguments {
	n := c.Size()
	block := max(1, k/n)
	f := func(k int) []float64 { return make([]float64, k) }
	return &arguments{k, f(k), f(k), f(block), f(block * n), f(block * n),
		values2(n, func(int) int { return block }), mpi.Sum[float64]}
}

var collectives = []struct {
	name string
	call func(c *mpi.Comm, a *arguments) error
}{
	{"Bcast", func(c *mpi.Comm, a *arguments) error { return mpi.Bcast(c, a.send, 1) }},
	{"Reduce", func(c *mpi.Comm, a *arguments) error { return mpi.Reduce(c, a.send, a.recv, a.op, 1) }},
	{"ReduceInPlace", func(c *mpi.Comm, a *arguments) error { return mpi.ReduceInPlace(c, a.send, a.op, 0) }},
	{"Allreduce", func(c *mpi.Comm, a *arguments) error { return mpi.Allreduce(c, a.send, a.recv, a.op) }},
	{"AllreduceInPlace", func(c *mpi.Comm, a *arguments) error { return mpi.AllreduceInPlace(c, a.send, a.op) }},
	{"Scan", func(c *mpi.Comm, a *arguments) error { return mpi.Scan(c, a.send, a.recv, a.op) }},
	{"Exscan", func(c *mpi.Comm, a *arguments) error { return mpi.Exscan(c, a.send, a.recv, a.op) }},
	{"Gather", func(c *mpi.Comm, a *arguments) error { return mpi.Gather(c, a.block, a.all, 1) }},
	{"Gatherv", func(c *mpi.Comm, a *arguments) error { return mpi.Gatherv(c, a.block, a.all, a.counts, nil, 0) }},
	{"Scatter", func(c *mpi.Comm, a *arguments) error { return mpi.Scatter(c, a.all, a.block, 1) }},
	{"Scatterv", func(c *mpi.Comm, a *arguments) error { return mpi.Scatterv(c, a.all, a.counts, nil, a.block, 0) }},
	{"Allgather", func(c *mpi.Comm, a *arguments) error { return mpi.Allgather(c, a.block, a.all) }},
	{"Allgatherv", func(c *mpi.Comm, a *arguments) error { return mpi.Allgatherv(c, a.block, a.all, a.counts, nil) }},
	{"Alltoall", func(c *mpi.Comm, a *arguments) error { return mpi.Alltoall(c, a.all, a.more) }},
	{"AlltoallInPlace", func(c *mpi.Comm, a *arguments) error { return mpi.AlltoallInPlace(c, a.all) }},
	{"Alltoallv", func(c *mpi.Comm, a *arguments) error {
		return mpi.Alltoallv(c, a.all, a.counts, nil, a.more, a.counts, nil)
	}},
	{"ReduceScatter", func(c *mpi.Comm, a *arguments) error {
		return mpi.ReduceScatter(c, a.all, a.block, a.counts, a.op)
	}},
	{"ReduceScatterBlock", func(c *mpi.Comm, a *arguments) error {
		return mpi.ReduceScatterBlock(c, a.all, a.block, a.op)
	}},
	{"ReduceScatterBlockInPlace", func(c *mpi.Comm, a *arguments) error {
		return mpi.ReduceScatterBlockInPlace(c, a.all, a.op)
	}},
}

type buffers struct{ small, small2, large, large2 []float64 }

// The types of a program are looked at once.
func TestTypeLookupAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		_ = mpi.CountOf[point](mpi.Status{Bytes: 32})
		_ = mpi.CountOf[float64](mpi.Status{Bytes: 32})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPingPong(b *testing.B) {
	b.ReportAllocs()
	mpitest.Run(b, 2, func(c *mpi.Comm) error {
		buf := make([]byte, 8)
		for range b.N {
			if c.Rank() == 0 {
				if err := mpi.Send(c, buf, 1, 0); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(c, buf, 1-c.Rank(), 0); err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := mpi.Send(c, buf, 0, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func BenchmarkSelf(b *testing.B) {
	b.ReportAllocs()
	mpitest.Run(b, 1, func(c *mpi.Comm) error {
		buf := make([]byte, 8)
		for range b.N {
			if err := mpi.Send(c, buf, 0, 0); err != nil {
				return err
			}
			if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkAllreduce(b *testing.B) {
	for _, n := range []int{1, 1 << 17} {
		b.Run(fmt.Sprint(8*n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			mpitest.Run(b, 4, func(c *mpi.Comm) error {
				buf := make([]float64, n)
				for range b.N {
					if err := mpi.AllreduceInPlace(c, buf, mpi.Sum); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkOperator is what a reduction costs beside its messages.
func BenchmarkOperator(b *testing.B) {
	b.ReportAllocs()
	mpitest.Run(b, 1, func(c *mpi.Comm) error {
		a, z := make([]float64, 1), make([]float64, 1)
		for range b.N {
			if err := mpi.Allreduce(c, a, z, mpi.Sum); err != nil {
				return err
			}
		}
		return nil
	})
}
