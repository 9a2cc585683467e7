package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Bcast gives all ranks of c the content of root's buf. All pass the same
// length and root. Errors: ErrRank, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.4)
func Bcast[T any](c *Comm, buf []T, root int) error {
	if c.crosses() {
		return crossBcast(c, buf, root)
	}
	t, err := elem[T]()
	p := bytesOf(buf)
	x, err := c.enter(kindBcast, root, t, len(p), err)
	if err != nil {
		return err
	}
	return x.leave(x.bcast(p))
}

func (x *collective) bcast(p []byte) error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(len(p))
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.bcastShared(p, x.root, rule.Segment)
	case coll.Levels:
		return x.bcastLevels(p)
	}
	k := len(p) / x.t.Size
	s, known := x.plan(rule, k, false)
	if !known {
		switch n, me := x.c.size, x.c.rank; rule.Algorithm {
		case coll.Linear:
			schedule.BcastLinear(s, me, n, x.root, k)
		case coll.Scatter:
			schedule.BcastScattered(s, me, n, x.root, k, true)
		case coll.Chain:
			schedule.BcastChain(s, me, n, x.root, k, x.pieces(rule.Segment))
		default:
			schedule.Bcast(s, me, n, x.root, k, x.pieces(rule.Segment))
		}
	}
	return x.carry(s, nil, p)
}

// pieces cuts buffers into pieces of about the length of a segment.
func (x *collective) pieces(segment int) schedule.Pieces {
	return schedule.Pieces{Size: x.t.Size, Bytes: segment}
}

// bcastLevels sends p from the root to one rank of each other node, down a tree of nodes. From there p goes to
// the ranks of the node.
func (x *collective) bcastLevels(p []byte) error {
	nodes, s, me, k := x.c.coll.nodes, x.draft(), x.c.rank, len(p)/x.t.Size
	if nodes == nil {
		schedule.BcastLinear(s, me, x.c.size, x.root, k)
		return x.carry(s, nil, p)
	}
	node := nodes.of[me]
	if leader := x.leader(node); leader != me {
		return x.hear(p, leader)
	}
	schedule.Bcast(s, node, len(nodes.ranks), nodes.of[x.root], k, schedule.Pieces{})
	s.Map(x.leader)
	if err := x.carry(s, nil, p); err != nil {
		return err
	}
	return x.handOut(p)
}
