package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Reduce combines all ranks' send, element by element, into root's recv. All pass the same length, operator and
// root. At the root recv has that length. Elsewhere it is ignored and may be nil. Errors: ErrRank, ErrCount,
// ErrBuffer, ErrOp, ErrType, ErrComm, ErrMismatch, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.9.1)
func Reduce[T any](c *Comm, send, recv []T, op Op[T], root int) error {
	if c.crosses() {
		return crossReduce(c, send, recv, op, root)
	}
	var err error
	if c.Rank() == root {
		err = first(compare("recv", len(recv), len(send)), apart(bytesOf(send), bytesOf(recv)))
	}
	return reduction(c, kindReduce, root, send, recv, op, err, reduce)
}

// ReduceInPlace is Reduce where the root's buf holds its contribution before and the result after. Elsewhere
// buf is only read. Errors: as Reduce. (MPI-4.1, chapter 6.9.1)
func ReduceInPlace[T any](c *Comm, buf []T, op Op[T], root int) error {
	return reduction(c, kindReduce, root, buf, buf, op, nil, reduce)
}

// reduce combines all send into the root's recv, which may be the same slice. Other ranks' recv is not used.
func reduce(x *collective, send, recv []byte) error {
	if x.c.size == 1 {
		move(recv, send)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	if rule.Algorithm == coll.Shared {
		return x.reduceShared(send, recv, rule.Segment)
	}
	n, me, k := x.c.size, x.c.rank, len(send)/x.t.Size
	inPlace := me == x.root && same(send, recv)
	s, known := x.plan(rule, k, inPlace)
	if !known {
		switch a := rule.Algorithm; {
		case a == coll.Central:
			schedule.ReduceCentral(s, me, n, x.root, k)
		case a == coll.Halving:
			schedule.ReduceHalving(s, me, n, x.root, k, inPlace, x.commutes, x.pieces(rule.Segment))
		case a == coll.Ring && x.commutes:
			schedule.ReduceRing(s, me, n, x.root, k)
		default:
			schedule.Reduce(s, me, n, x.root, k, inPlace, x.pieces(rule.Segment))
		}
	}
	return x.carry(s, send, recv)
}

// reduceShared combines short buffers on the root. Of long buffers every rank combines a share.
func (x *collective) reduceShared(send, recv []byte, segment int) error {
	if x.c.size*x.bytes <= foldByOne && x.bytes <= x.piece(segment) {
		return x.foldShared(send, recv, engine.ToOne, x.root)
	}
	return x.shareOut(send, recv, engine.ToOne, segment)
}
