package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/mpi"
)

// kinds: a call of every kind that can be under way is, or is idle: collectives of all forms that rank 0 has not yet begun, so
// that they are half done; messages that nobody receives yet, and receives that nothing was sent to; partitioned messages of
// which half of the parts are ready; a request that the program completes itself; and the values that a program
// makes once and uses again.
func kinds(s *stage, c *mpi.Comm) error {
	all := []func(c *mpi.Comm) (goOn func() error, err error){halves, between, bordered, posted, sent, inParts, pledged, values}
	var goOn []func() error
	for _, begin := range all {
		f, err := begin(c)
		if err != nil {
			return err
		}
		goOn = append(goOn, f)
	}
	s.here(c.Rank())
	s.wait("go")
	for i, f := range goOn {
		if err := f(); err != nil {
			return fmt.Errorf("kind %d: %w", i, err)
		}
	}
	return s.result(c, "ended")
}

// middling is a length in words that is sent at once by no transport in one piece, and is not too long for a call of every kind.
const middling = 16 << 10

// half is a collective: begun, and the same as one call, which tells what must come out.
type half struct {
	name  string
	begin func(out []uint64) (mpi.Request, error)
	whole func(out []uint64) error
}

// again begins by a persistent call.
func again(p *mpi.Persistent, err error) func([]uint64) (mpi.Request, error) {
	return func([]uint64) (mpi.Request, error) {
		if err != nil {
			return mpi.Request{}, err
		}
		return p.Start()
	}
}

// halves begins collectives on all ranks but 0.
func halves(world *mpi.Comm) (func() error, error) {
	c, err := world.Dup() // rank 0 goes on with the calls of the others
	if err != nil {
		return nil, err
	}
	grid, err := c.Cart([]int{c.Size()}, []bool{true}, false)
	if err != nil {
		return nil, err
	}
	calls, persistent, outs := collectivesOf(c, grid)
	rs := make([]mpi.Request, len(calls))
	for i := range calls {
		if outs[i] == nil {
			outs[i] = make([]uint64, c.Size()*middling)
		}
	}
	begin := func() error {
		for i, x := range calls {
			if rs[i], err = x.begin(outs[i]); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		return nil
	}
	if c.Rank() != 0 {
		err = begin()
	}
	return func() error {
		if c.Rank() == 0 {
			if err := begin(); err != nil {
				return err
			}
		}
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		for i, x := range calls {
			want := make([]uint64, c.Size()*middling)
			if err := x.whole(want); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			if k := len(outs[i]); !slices.Equal(outs[i], want[:k]) {
				return fmt.Errorf("%s has another result than when it is called in one", x.name)
			}
		}
		for _, p := range persistent {
			if err := p.Free(); err != nil {
				return err
			}
		}
		return errors.Join(grid.Free(), c.Free())
	}, err
}

// collectivesOf returns the collectives, and those that are persistent with where their results go.
func collectivesOf(c *mpi.Comm, grid *mpi.Cart) (calls []half, persistent []*mpi.Persistent, outs [][]uint64) {
	n := c.Size()
	mine, each := noise(middling, uint64(c.Rank())), noise(n*middling, uint64(c.Rank()))
	counts := slices.Repeat([]int{middling}, n)
	one, two, both := mine, each[:2*middling], []int{middling, middling}
	root := n - 1
	rooted := func(p []uint64) []uint64 {
		if c.Rank() == root {
			return p
		}
		return nil
	}
	share := func(out []uint64) []uint64 { return out[:middling] }
	pair := func(out []uint64) []uint64 { return out[:2*middling] }
	views := func(p []uint64, k int) (all []mpi.View[uint64]) {
		for i := range k {
			all = append(all, mpi.View[uint64]{Data: p[i*middling : (i+1)*middling], Layout: mpi.Vector(middling/4, 2, 4)})
		}
		return all
	}
	bcast := func(out []uint64) []uint64 {
		if c.Rank() == root {
			copy(out, one)
		}
		return share(out)
	}
	calls = []half{
		{"Ibarrier", func([]uint64) (mpi.Request, error) { return mpi.Ibarrier(c) }, func([]uint64) error { return mpi.Barrier(c) }},
		{"Ibcast", func(o []uint64) (mpi.Request, error) { return mpi.Ibcast(c, bcast(o), root) }, func(o []uint64) error { return mpi.Bcast(c, bcast(o), root) }},
		{"Igather", func(o []uint64) (mpi.Request, error) { return mpi.Igather(c, one, rooted(o), root) }, func(o []uint64) error { return mpi.Gather(c, one, rooted(o), root) }},
		{"Igatherv", func(o []uint64) (mpi.Request, error) { return mpi.Igatherv(c, one, rooted(o), counts, nil, root) }, func(o []uint64) error { return mpi.Gatherv(c, one, rooted(o), counts, nil, root) }},
		{"Iscatter", func(o []uint64) (mpi.Request, error) { return mpi.Iscatter(c, rooted(each), share(o), root) }, func(o []uint64) error { return mpi.Scatter(c, rooted(each), share(o), root) }},
		{"Iscatterv", func(o []uint64) (mpi.Request, error) {
			return mpi.Iscatterv(c, rooted(each), counts, nil, share(o), root)
		}, func(o []uint64) error { return mpi.Scatterv(c, rooted(each), counts, nil, share(o), root) }},
		{"Iallgather", func(o []uint64) (mpi.Request, error) { return mpi.Iallgather(c, one, o) }, func(o []uint64) error { return mpi.Allgather(c, one, o) }},
		{"Iallgatherv", func(o []uint64) (mpi.Request, error) { return mpi.Iallgatherv(c, one, o, counts, nil) }, func(o []uint64) error { return mpi.Allgatherv(c, one, o, counts, nil) }},
		{"Ialltoall", func(o []uint64) (mpi.Request, error) { return mpi.Ialltoall(c, each, o) }, func(o []uint64) error { return mpi.Alltoall(c, each, o) }},
		{"Ialltoallv", func(o []uint64) (mpi.Request, error) { return mpi.Ialltoallv(c, each, counts, nil, o, counts, nil) }, func(o []uint64) error { return mpi.Alltoallv(c, each, counts, nil, o, counts, nil) }},
		{"Ialltoallw", func(o []uint64) (mpi.Request, error) { return mpi.Ialltoallw(c, views(each, n), views(o, n)) }, func(o []uint64) error { return mpi.Alltoallw(c, views(each, n), views(o, n)) }},
		{"Ireduce", func(o []uint64) (mpi.Request, error) { return mpi.Ireduce(c, one, share(o), mpi.Sum, root) }, func(o []uint64) error { return mpi.Reduce(c, one, share(o), mpi.Sum, root) }},
		{"Iallreduce", func(o []uint64) (mpi.Request, error) { return mpi.Iallreduce(c, one, share(o), mpi.BXor) }, func(o []uint64) error { return mpi.Allreduce(c, one, share(o), mpi.BXor) }},
		{"IreduceScatterBlock", func(o []uint64) (mpi.Request, error) { return mpi.IreduceScatterBlock(c, each, share(o), mpi.Max) }, func(o []uint64) error { return mpi.ReduceScatterBlock(c, each, share(o), mpi.Max) }},
		{"IreduceScatter", func(o []uint64) (mpi.Request, error) { return mpi.IreduceScatter(c, each, share(o), counts, mpi.Min) }, func(o []uint64) error { return mpi.ReduceScatter(c, each, share(o), counts, mpi.Min) }},
		{"Iscan", func(o []uint64) (mpi.Request, error) { return mpi.Iscan(c, one, share(o), mpi.Sum) }, func(o []uint64) error { return mpi.Scan(c, one, share(o), mpi.Sum) }},
		{"Iexscan", func(o []uint64) (mpi.Request, error) { return mpi.Iexscan(c, one, share(o), mpi.Sum) }, func(o []uint64) error { return mpi.Exscan(c, one, share(o), mpi.Sum) }},
		{"IneighborAllgather", func(o []uint64) (mpi.Request, error) { return mpi.IneighborAllgather(grid, one, pair(o)) }, func(o []uint64) error { return mpi.NeighborAllgather(grid, one, pair(o)) }},
		{"IneighborAllgatherv", func(o []uint64) (mpi.Request, error) { return mpi.IneighborAllgatherv(grid, one, pair(o), both, nil) }, func(o []uint64) error { return mpi.NeighborAllgatherv(grid, one, pair(o), both, nil) }},
		{"IneighborAlltoall", func(o []uint64) (mpi.Request, error) { return mpi.IneighborAlltoall(grid, two, pair(o)) }, func(o []uint64) error { return mpi.NeighborAlltoall(grid, two, pair(o)) }},
		{"IneighborAlltoallv", func(o []uint64) (mpi.Request, error) {
			return mpi.IneighborAlltoallv(grid, two, both, nil, pair(o), both, nil)
		}, func(o []uint64) error { return mpi.NeighborAlltoallv(grid, two, both, nil, pair(o), both, nil) }},
		{"IneighborAlltoallw", func(o []uint64) (mpi.Request, error) { return mpi.IneighborAlltoallw(grid, views(two, 2), views(o, 2)) }, func(o []uint64) error { return mpi.NeighborAlltoallw(grid, views(two, 2), views(o, 2)) }},
	}
	outs = make([][]uint64, len(calls))
	for _, x := range calls { // those that are made once, and started
		o := make([]uint64, n*middling)
		p, err := persistentOf(c, grid, x.name, o, one, each, two, rooted, bcast)
		if p == nil && err == nil {
			continue
		}
		calls, outs = append(calls, half{x.name + " made once", again(p, err), x.whole}), append(outs, o)
		persistent = append(persistent, p)
	}
	return calls, persistent, outs
}

// persistentOf makes the persistent form of some collectives; nil for the others.
func persistentOf(c *mpi.Comm, grid *mpi.Cart, name string, o, one, each, two []uint64, rooted, bcast func([]uint64) []uint64) (*mpi.Persistent, error) {
	root, share := c.Size()-1, o[:middling]
	switch name {
	case "Ibarrier":
		return mpi.BarrierInit(c)
	case "Ibcast":
		return mpi.BcastInit(c, bcast(o), root)
	case "Igather":
		return mpi.GatherInit(c, one, rooted(o), root)
	case "Iscatter":
		return mpi.ScatterInit(c, rooted(each), share, root)
	case "Iallgatherv":
		return mpi.AllgathervInit(c, one, o, slices.Repeat([]int{middling}, c.Size()), nil)
	case "Ialltoall":
		return mpi.AlltoallInit(c, each, o)
	case "Ireduce":
		return mpi.ReduceInit(c, one, share, mpi.Sum, root)
	case "Iallreduce":
		return mpi.AllreduceInit(c, one, share, mpi.BXor)
	case "IreduceScatterBlock":
		return mpi.ReduceScatterBlockInit(c, each, share, mpi.Max)
	case "Iscan":
		return mpi.ScanInit(c, one, share, mpi.Sum)
	case "IneighborAlltoall":
		return mpi.NeighborAlltoallInit(grid, two, o[:2*middling])
	}
	return nil, nil
}
