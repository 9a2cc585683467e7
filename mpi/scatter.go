package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Scatter gives rank i the i-th block of root's send. At the root len(send) is Size() times len(recv), which is
// the same everywhere. Elsewhere send is ignored and may be nil. Errors: as Gather. (MPI-4.1, chapter 6.6)
func Scatter[T any](c *Comm, send, recv []T, root int) error {
	return portions(c, kindScatter, recv, send, root)
}

// ScatterInPlace is Scatter where the root's buf is all blocks, and its own block stays at its place. Elsewhere
// buf receives the block. Errors: as Gather. (MPI-4.1, chapter 6.6)
func ScatterInPlace[T any](c *Comm, buf []T, root int) error {
	return portionsInPlace(c, kindScatter, buf, root)
}

// Scatterv is Scatter of blocks of different lengths. Rank i gets counts[i] elements from send[displs[i]:]. If
// displs is nil, the blocks follow each other. Only the root reads send, counts and displs. Errors: as Gather.
// (MPI-4.1, chapter 6.6)
func Scatterv[T any](c *Comm, send []T, counts, displs []int, recv []T, root int) error {
	return portionsv(c, kindScatterv, recv, send, counts, displs, root)
}

// ScattervInPlace is Scatterv where the root's buf is all blocks, and its own block stays at its place.
// Elsewhere buf receives the block. Errors: as Gather. (MPI-4.1, chapter 6.6)
func ScattervInPlace[T any](c *Comm, buf []T, counts, displs []int, root int) error {
	return portionsvInPlace(c, kindScatterv, buf, counts, displs, root)
}

// scatter copies the root's blocks of p to all ranks' mine. The root's own block is in place.
func (x *collective) scatter(p, mine []byte, b blocks) error {
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
		return x.scatterShared(p, mine, rule.Segment)
	}
	s, known := x.plan(rule, k, false)
	switch {
	case known:
	case rule.Algorithm == coll.Binomial:
		schedule.ScatterTree(s, me, n, x.root, k)
	default:
		schedule.Scatter(s, me, n, x.root, k, b.at)
	}
	return x.carry(s, p, mine)
}

// scatterShared cuts the blocks into strips. The root posts a strip for each rank, and each rank takes its own.
func (x *collective) scatterShared(p, mine []byte, segment int) error {
	n, me, block := x.c.size, x.c.rank, len(mine)
	return strips(n, block, x.piece(segment), func(off, k int) error {
		turn := engine.Turn{Need: engine.FromOne, One: x.root, Want: n * k, Off: me * k, Len: k, Into: mine[off : off+k]}
		if me == x.root {
			turn.Send, turn.SendStride, turn.SendLen = p[off:], block, k
			turn.Into, turn.Len = nil, 0
		}
		return x.take(turn)
	})
}
