package mpi_test

import (
	"github.com/gorun-mpi/gorun/mpi"
)

// ringOf is a call on a ring, in a form that has a start and an end.
func ringOf(name string, k int, call func(t mpi.Topology, send, recv []int) error) use {
	return everywhere(name, func(c *mpi.Comm) error { return call(ring(c), make([]int, k), make([]int, 2)) },
		length(func(c *mpi.Comm) error { return call(ring(c), make([]int, k), make([]int, 5)) }))
}

// anywhere is a call whose receive buffer has an element for each rank, or another number where it is wrong.
func anywhere(name string, call func(c *mpi.Comm, all []int) error) use {
	return everywhere(name, func(c *mpi.Comm) error { return call(c, blocks(c, 1)) },
		length(func(c *mpi.Comm) error { return call(c, make([]int, 4)) }))
}

// counts are as many as there are ranks, and fewer for a buffer that is too long.
func counts(c *mpi.Comm, all []int) []int {
	if len(all) > max(c.Size(), 1) {
		return ones(c)[1:]
	}
	return ones(c)
}

// reducing is a call with an operator, and two buffers of which the second may be too long.
func reducing(name string, call func(c *mpi.Comm, recv []int, op mpi.Op[int]) error) use {
	return everywhere(name, func(c *mpi.Comm) error { return call(c, make([]int, 1), mpi.Sum) },
		length(func(c *mpi.Comm) error { return call(c, make([]int, 2), mpi.Sum) }),
		noOp(func(c *mpi.Comm) error { return call(c, make([]int, 1), nil) }))
}

// inPlace is a reduction of one buffer.
func inPlace(name string, call func(c *mpi.Comm, op mpi.Op[int]) error) use {
	return everywhere(name, func(c *mpi.Comm) error { return call(c, mpi.Sum) }, noOp(func(c *mpi.Comm) error { return call(c, nil) }))
}

// part is what a rank has of the whole: all of it at the root.
func part(c *mpi.Comm, root int) []int {
	if c.Rank() == root {
		return blocks(c, 1)
	}
	return make([]int, 1)
}

// misusedForms are the collectives in their other forms: in place, persistent, begun and ended later.
var misusedForms = []use{
	fromRoots("BcastInit", func(c *mpi.Comm, root int) error { return started(mpi.BcastInit(c, unit[:0], root)) }),
	fromRoots("GatherInit", func(c *mpi.Comm, root int) error { return started(mpi.GatherInit(c, unit, blocks(c, 1), root)) }),
	fromRoots("GathervInit", func(c *mpi.Comm, root int) error {
		return started(mpi.GathervInit(c, unit, blocks(c, 1), ones(c), nil, root))
	}),
	fromRoots("GathervInPlace", func(c *mpi.Comm, root int) error { return mpi.GathervInPlace(c, part(c, root), ones(c), nil, root) }),
	fromRoots("ScatterInit", func(c *mpi.Comm, root int) error {
		return started(mpi.ScatterInit(c, blocks(c, 1), make([]int, 1), root))
	}),
	fromRoots("ScattervInit", func(c *mpi.Comm, root int) error {
		return started(mpi.ScattervInit(c, blocks(c, 1), ones(c), nil, make([]int, 1), root))
	}),
	fromRoots("ScatterInPlace", func(c *mpi.Comm, root int) error { return mpi.ScatterInPlace(c, part(c, root), root) }),
	fromRoots("ScattervInPlace", func(c *mpi.Comm, root int) error { return mpi.ScattervInPlace(c, part(c, root), ones(c), nil, root) }),
	fromRoots("ReduceInPlace", func(c *mpi.Comm, root int) error { return mpi.ReduceInPlace(c, make([]int, 1), mpi.Sum, root) }),
	fromRoots("ReduceInit", func(c *mpi.Comm, root int) error {
		return started(mpi.ReduceInit(c, unit, make([]int, 1), mpi.Sum, root))
	}),
	anywhere("AllgatherInit", func(c *mpi.Comm, all []int) error { return started(mpi.AllgatherInit(c, unit, all)) }),
	anywhere("AllgathervInit", func(c *mpi.Comm, all []int) error {
		return started(mpi.AllgathervInit(c, unit, all, counts(c, all), nil))
	}),
	anywhere("Iallgatherv", func(c *mpi.Comm, all []int) error {
		return waited(mpi.Iallgatherv(c, unit, all, counts(c, all), nil))
	}),
	anywhere("AllgathervInPlace", func(c *mpi.Comm, all []int) error {
		return mpi.AllgathervInPlace(c, all, counts(c, all), nil)
	}),
	anywhere("AlltoallInit", func(c *mpi.Comm, all []int) error { return started(mpi.AlltoallInit(c, blocks(c, 1), all)) }),
	anywhere("Ialltoall", func(c *mpi.Comm, all []int) error { return waited(mpi.Ialltoall(c, blocks(c, 1), all)) }),
	anywhere("AlltoallvInit", func(c *mpi.Comm, all []int) error {
		return started(mpi.AlltoallvInit(c, blocks(c, 1), ones(c), nil, all, counts(c, all), nil))
	}),
	anywhere("Ialltoallv", func(c *mpi.Comm, all []int) error {
		return waited(mpi.Ialltoallv(c, blocks(c, 1), ones(c), nil, all, counts(c, all), nil))
	}),
	anywhere("AlltoallvInPlace", func(c *mpi.Comm, all []int) error {
		return mpi.AlltoallvInPlace(c, all, counts(c, all), nil)
	}),
	anywhere("AlltoallwInit", func(c *mpi.Comm, all []int) error {
		return started(mpi.AlltoallwInit(c, singles(blocks(c, 1)), singles(all)))
	}),
	reducing("ScanInit", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error { return started(mpi.ScanInit(c, unit, recv, op)) }),
	reducing("Iscan", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error { return waited(mpi.Iscan(c, unit, recv, op)) }),
	reducing("ExscanInit", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error {
		return started(mpi.ExscanInit(c, unit, recv, op))
	}),
	reducing("Iexscan", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error { return waited(mpi.Iexscan(c, unit, recv, op)) }),
	reducing("ReduceScatterBlockInit", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error {
		return started(mpi.ReduceScatterBlockInit(c, blocks(c, 1), recv, op))
	}),
	reducing("IreduceScatterBlock", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error {
		return waited(mpi.IreduceScatterBlock(c, blocks(c, 1), recv, op))
	}),
	reducing("ReduceScatterInit", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error {
		return started(mpi.ReduceScatterInit(c, blocks(c, 1), recv, ones(c), op))
	}),
	reducing("IreduceScatter", func(c *mpi.Comm, recv []int, op mpi.Op[int]) error {
		return waited(mpi.IreduceScatter(c, blocks(c, 1), recv, ones(c), op))
	}),
	inPlace("AllreduceInPlace", func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.AllreduceInPlace(c, make([]int, 1), op) }),
	inPlace("ScanInPlace", func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ScanInPlace(c, make([]int, 1), op) }),
	inPlace("ExscanInPlace", func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ExscanInPlace(c, make([]int, 1), op) }),
	inPlace("ReduceScatterBlockInPlace", func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ReduceScatterBlockInPlace(c, blocks(c, 1), op) }),
	inPlace("ReduceScatterInPlace", func(c *mpi.Comm, op mpi.Op[int]) error {
		return mpi.ReduceScatterInPlace(c, blocks(c, 1), ones(c), op)
	}),
	ringOf("IneighborAllgatherv", 1, func(t mpi.Topology, send, recv []int) error {
		return waited(mpi.IneighborAllgatherv(t, send, recv, two[:min(2, 6-len(recv))], nil))
	}),
	ringOf("IneighborAlltoallv", 2, func(t mpi.Topology, send, recv []int) error {
		return waited(mpi.IneighborAlltoallv(t, send, two, nil, recv, two[:min(2, 6-len(recv))], nil))
	}),
	ringOf("NeighborAllgatherInit", 1, func(t mpi.Topology, send, recv []int) error {
		return started(mpi.NeighborAllgatherInit(t, send, recv))
	}),
	ringOf("NeighborAllgathervInit", 1, func(t mpi.Topology, send, recv []int) error {
		return started(mpi.NeighborAllgathervInit(t, send, recv, two[:min(2, 6-len(recv))], nil))
	}),
	ringOf("NeighborAlltoallvInit", 2, func(t mpi.Topology, send, recv []int) error {
		return started(mpi.NeighborAlltoallvInit(t, send, two, nil, recv, two[:min(2, 6-len(recv))], nil))
	}),
	ringViews("NeighborAlltoallwInit", func(t mpi.Topology, send, recv []mpi.View[int]) error {
		return started(mpi.NeighborAlltoallwInit(t, send, recv))
	}),
	everywhere("Halo.Exchange", func(c *mpi.Comm) error {
		halo, err := mpi.NewHalo(ring(c), make([]int, 3), []int{3}, 1, false)
		if err != nil {
			return err
		}
		return halo.Exchange()
	}),
	everywhere("Comm.Dup", func(c *mpi.Comm) error { return err1(c.Dup()) }),
}
