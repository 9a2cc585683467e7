package patterns

import (
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/mpi"
)

// Collective is one of them. A block goes from rank to rank; those named Reduce_scatter distribute one.
type Collective struct {
	Name string                 // as the Intel MPI Benchmarks have it: "Reduce_scatter"
	Unit int                    // bytes of an element
	Room func(np int) int       // blocks of all buffers together
	On   func(b *Buffers) Calls // makes the buffers

	Rooted bool // one rank has another part than the others
}

// Calls are repetition i of a collective, as a call and as a nonblocking one.
type Calls struct {
	Do    func(i int) error
	Begin func(i int) (mpi.Request, error)
	Check // of either
}

// Nonblocking returns the name of the nonblocking form: "Ireduce_scatter".
func (c *Collective) Nonblocking() string { return "I" + strings.ToLower(c.Name) }

// Sized reports whether it moves blocks.
func (c *Collective) Sized() bool { return c.Room(1) > 0 }

// first returns where the share of a rank begins.
func first(counts []int, rank int) (n int) {
	for _, c := range counts[:rank] {
		n += c
	}
	return n
}

func none(int) int          { return 0 }
func one(int) int           { return 1 }
func pair(int) int          { return 2 }
func onePlusAll(np int) int { return 1 + np }
func twiceAll(np int) int   { return 2 * np }

// All are all of them.
var All = rooted([]*Collective{
	{Name: "Allreduce", Unit: 4, Room: pair, On: func(b *Buffers) Calls {
		x, y := b.Floats(), b.Floats()
		return Calls{
			func(int) error { return mpi.Allreduce(b.C, x, y, mpi.Sum) },
			func(int) (mpi.Request, error) { return mpi.Iallreduce(b.C, x, y, mpi.Sum) },
			b.sums(x, y, 0, everyone),
		}
	}},
	{Name: "Reduce", Unit: 4, Room: pair, On: func(b *Buffers) Calls {
		x, y := b.Floats(), b.Floats()
		return Calls{
			func(i int) error { return mpi.Reduce(b.C, x, y, mpi.Sum, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Ireduce(b.C, x, y, mpi.Sum, b.root(i)) },
			b.sums(x, y, 0, b.root),
		}
	}},
	{Name: "Reduce_scatter", Unit: 4, Room: pair, On: func(b *Buffers) Calls {
		x, counts := b.Floats(), b.shares()
		y := make([]float32, counts[b.Rank()])
		return Calls{
			func(int) error { return mpi.ReduceScatter(b.C, x, y, counts, mpi.Sum) },
			func(int) (mpi.Request, error) { return mpi.IreduceScatter(b.C, x, y, counts, mpi.Sum) },
			b.sums(x, y, first(counts, b.Rank()), everyone),
		}
	}},
	{Name: "Reduce_scatter_block", Unit: 4, Room: pair, On: func(b *Buffers) Calls {
		y := make([]float32, b.Size/4/b.NP())
		x := b.Floats()[:len(y)*b.NP()]
		return Calls{
			func(int) error { return mpi.ReduceScatterBlock(b.C, x, y, mpi.Sum) },
			func(int) (mpi.Request, error) { return mpi.IreduceScatterBlock(b.C, x, y, mpi.Sum) },
			b.sums(x, y, len(y)*b.Rank(), everyone),
		}
	}},
	{Name: "Allgather", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y := b.Bytes(1), b.Bytes(b.NP())
		return Calls{
			func(int) error { return mpi.Allgather(b.C, x, y) },
			func(int) (mpi.Request, error) { return mpi.Iallgather(b.C, x, y) },
			b.moves(x, b.toAll, y, b.ofEach, everyone),
		}
	}},
	{Name: "Allgatherv", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y, counts := b.Bytes(1), b.Bytes(b.NP()), b.counts()
		return Calls{
			func(int) error { return mpi.Allgatherv(b.C, x, y, counts, nil) },
			func(int) (mpi.Request, error) { return mpi.Iallgatherv(b.C, x, y, counts, nil) },
			b.moves(x, b.toAll, y, b.ofEach, everyone),
		}
	}},
	{Name: "Gather", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y := b.Bytes(1), b.Bytes(b.NP())
		return Calls{
			func(i int) error { return mpi.Gather(b.C, x, y, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Igather(b.C, x, y, b.root(i)) },
			b.moves(x, b.toAll, y, b.ofEach, b.root),
		}
	}},
	{Name: "Gatherv", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y, counts := b.Bytes(1), b.Bytes(b.NP()), b.counts()
		return Calls{
			func(i int) error { return mpi.Gatherv(b.C, x, y, counts, nil, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Igatherv(b.C, x, y, counts, nil, b.root(i)) },
			b.moves(x, b.toAll, y, b.ofEach, b.root),
		}
	}},
	{Name: "Scatter", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y := b.Bytes(b.NP()), b.Bytes(1)
		return Calls{
			func(i int) error { return mpi.Scatter(b.C, x, y, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Iscatter(b.C, x, y, b.root(i)) },
			b.moves(x, b.rootToEach, y, b.rootToMe, everyone),
		}
	}},
	{Name: "Scatterv", Unit: 1, Room: onePlusAll, On: func(b *Buffers) Calls {
		x, y, counts := b.Bytes(b.NP()), b.Bytes(1), b.counts()
		return Calls{
			func(i int) error { return mpi.Scatterv(b.C, x, counts, nil, y, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Iscatterv(b.C, x, counts, nil, y, b.root(i)) },
			b.moves(x, b.rootToEach, y, b.rootToMe, everyone),
		}
	}},
	{Name: "Alltoall", Unit: 1, Room: twiceAll, On: func(b *Buffers) Calls {
		x, y := b.Bytes(b.NP()), b.Bytes(b.NP())
		return Calls{
			func(int) error { return mpi.Alltoall(b.C, x, y) },
			func(int) (mpi.Request, error) { return mpi.Ialltoall(b.C, x, y) },
			b.moves(x, b.toEach, y, b.fromEach, everyone),
		}
	}},
	{Name: "Alltoallv", Unit: 1, Room: twiceAll, On: func(b *Buffers) Calls {
		x, y, counts := b.Bytes(b.NP()), b.Bytes(b.NP()), b.counts()
		return Calls{
			func(int) error { return mpi.Alltoallv(b.C, x, counts, nil, y, counts, nil) },
			func(int) (mpi.Request, error) { return mpi.Ialltoallv(b.C, x, counts, nil, y, counts, nil) },
			b.moves(x, b.toEach, y, b.fromEach, everyone),
		}
	}},
	{Name: "Bcast", Unit: 1, Room: one, On: func(b *Buffers) Calls {
		x := b.Bytes(1)
		return Calls{
			func(i int) error { return mpi.Bcast(b.C, x, b.root(i)) },
			func(i int) (mpi.Request, error) { return mpi.Ibcast(b.C, x, b.root(i)) },
			b.moves(x, b.rootToAll, x, b.rootToAll, everyone),
		}
	}},
	{Name: "Barrier", Unit: 1, Room: none, On: func(b *Buffers) Calls {
		return Calls{
			func(int) error { return mpi.Barrier(b.C) },
			func(int) (mpi.Request, error) { return mpi.Ibarrier(b.C) },
			b.moves(nil, b.toAll, nil, b.toAll, everyone),
		}
	}},
}, "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv", "Bcast")

// rooted marks those with a root.
func rooted(all []*Collective, names ...string) []*Collective {
	for _, c := range all {
		c.Rooted = slices.Contains(names, c.Name)
	}
	return all
}
