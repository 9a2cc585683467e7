package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Gather concatenates all ranks' send in root's recv, in the order of ranks. At the root len(recv) is Size()
// times len(send), which is the same everywhere. Elsewhere recv is ignored and may be nil. Errors: ErrRank,
// ErrCount, ErrBuffer, ErrType, ErrComm, ErrMismatch, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.5)
func Gather[T any](c *Comm, send, recv []T, root int) error {
	return portions(c, kindGather, send, recv, root)
}

// GatherInPlace is Gather where the root's buf is the whole result, with the root's contribution at its place.
// Elsewhere buf is the contribution. Errors: as Gather. (MPI-4.1, chapter 6.5)
func GatherInPlace[T any](c *Comm, buf []T, root int) error {
	return portionsInPlace(c, kindGather, buf, root)
}

// Gatherv is Gather of contributions of different lengths. At the root, rank i's has counts[i] elements and
// goes to recv[displs[i]:]. If displs is nil, they follow each other. Only the root reads counts, displs and
// recv. Errors: as Gather. (MPI-4.1, chapter 6.5)
func Gatherv[T any](c *Comm, send, recv []T, counts, displs []int, root int) error {
	return portionsv(c, kindGatherv, send, recv, counts, displs, root)
}

// GathervInPlace is Gatherv where the root's buf is the whole result, with the root's contribution at its
// place. Elsewhere buf is the contribution. Errors: as Gather. (MPI-4.1, chapter 6.5)
func GathervInPlace[T any](c *Comm, buf []T, counts, displs []int, root int) error {
	return portionsvInPlace(c, kindGatherv, buf, counts, displs, root)
}

// gather copies all ranks' mine to the root's p. The root's own block is in place.
func (x *collective) gather(mine, p []byte, b blocks) error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(len(mine))
	if err != nil {
		return err
	}
	n, me, k := x.c.size, x.c.rank, len(mine)/x.t.Size
	if me == x.root {
		mine = b.of(p, x.t.Size, me)
	}
	if rule.Algorithm == coll.Shared {
		return x.gatherShared(mine, p, x.root, rule.Segment)
	}
	s, known := x.plan(rule, k, false)
	switch {
	case known:
	case rule.Algorithm == coll.Binomial:
		schedule.GatherTree(s, me, n, x.root, k)
	default:
		schedule.Gather(s, me, n, x.root, k, b.at)
	}
	return x.carry(s, mine, p)
}
