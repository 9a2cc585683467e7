package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Allreduce combines all ranks' send, element by element, into every rank's recv. All pass the same length and
// operator, and all get the same bits. Errors: ErrCount, ErrBuffer, ErrOp, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.9.6)
func Allreduce[T any](c *Comm, send, recv []T, op Op[T]) error {
	if c.crosses() {
		return crossAllreduce(c, send, recv, op)
	}
	err := first(compare("recv", len(recv), len(send)), apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, kindAllreduce, noRoot, send, recv, op, err, allreduce)
}

// AllreduceInPlace is Allreduce where buf holds the rank's contribution before and the result after. Errors: as
// Allreduce. (MPI-4.1, chapter 6.9.6)
func AllreduceInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	return reduction(c, kindAllreduce, noRoot, buf, buf, op, nil, allreduce)
}

// allreduce combines all send into all recv, which may be the same.
func allreduce(x *collective, send, recv []byte) error {
	if x.c.size == 1 {
		move(recv, send)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.allreduceShared(send, recv, rule.Segment)
	case coll.Levels:
		return x.allreduceLevels(send, recv)
	}
	n, me, k, inPlace := x.c.size, x.c.rank, len(send)/x.t.Size, same(send, recv)
	if n == 2 && rule.Algorithm == coll.Doubling && !inPlace {
		return x.allreduceTwo(send, recv)
	}
	s, known := x.plan(rule, k, inPlace)
	if !known {
		switch a := rule.Algorithm; {
		case a == coll.Central:
			schedule.AllreduceCentral(s, me, n, k)
		case a == coll.Linear:
			schedule.AllreduceLinear(s, me, n, k)
		case a == coll.Halving:
			schedule.AllreduceHalving(s, me, n, k, inPlace, x.commutes, x.pieces(rule.Segment))
		case a == coll.Pairwise:
			schedule.AllreducePairwise(s, me, n, k)
		case a == coll.Binomial:
			schedule.AllreduceTree(s, me, n, k, inPlace)
		case a == coll.Ring && x.commutes:
			schedule.AllreduceRing(s, me, n, k)
		default:
			schedule.Allreduce(s, me, n, k, inPlace)
		}
	}
	return x.carry(s, send, recv)
}

// allreduceTwo is the schedule of two ranks that exchange all. It is the shortest reduction there is, and so does without.
func (x *collective) allreduceTwo(send, recv []byte) error {
	me := x.c.rank
	if err := x.exchange(1-me, send, 1-me, recv); err != nil {
		return err
	}
	if me == 0 {
		x.by.join(recv, send, recv)
	} else {
		x.by.join(recv, recv, send)
	}
	return nil
}

// allreduceShared combines short buffers on one rank for all, or on every rank, or on rank 0, which then sends
// the result to all. Of long buffers each rank combines a share of each piece.
func (x *collective) allreduceShared(send, recv []byte, segment int) error {
	if c := x.combinesOnce(allreduceOnce); c != nil {
		return x.foldOnce(send, recv, 0, c)
	}
	switch all := x.c.size * x.bytes; {
	case all <= min(foldAlone, x.piece(segment)):
		return x.foldShared(send, recv, engine.Everybody, 0)
	case all <= foldByOne && x.bytes <= x.piece(segment):
		if err := x.foldShared(send, recv, engine.ToOne, 0); err != nil {
			return err
		}
		return x.bcastShared(recv, 0, segment)
	}
	return x.shareOut(send, recv, engine.Everybody, segment)
}

// Up to foldAlone bytes of all ranks together, it is faster that every rank combines everything. Up to
// foldByOne bytes, it is faster that one rank combines for all than that they share the work.
const (
	foldAlone = 2 << 10
	foldByOne = 64 << 10
)

// foldShared combines all contributions into recv, on the ranks that need names: all, or one.
func (x *collective) foldShared(send, recv []byte, need engine.Need, one int) error {
	turn := engine.Turn{Need: need, One: one, Send: send, Want: x.bytes}
	if need == engine.ToOne && x.c.rank != one {
		return x.take(turn)
	}
	n := x.c.size
	turn.Len = x.bytes
	if turn.Combine = x.combiner(x.bytes); turn.Combine != nil {
		turn.Into = recv
		return x.take(turn)
	}
	s := borrow(n * x.bytes)
	defer s.giveBack()
	all := s.bytes(n * x.bytes)
	turn.Into, turn.Stride = all, x.bytes
	if err := x.take(turn); err != nil {
		return err
	}
	x.fold(all, x.bytes, n)
	copy(recv, all)
	return nil
}

// shareOut combines all send, piece by piece. Each rank takes a share of the piece from all boards, combines
// it, and posts the result with the next piece. The results go to all ranks' recv, or to the root's.
func (x *collective) shareOut(send, recv []byte, need engine.Need, segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	most := max(x.piece(segment)/((n+1)*size), 1) * n * size
	s := borrow(most)
	defer s.giveBack()
	all := s.bytes(most)
	where := x.combiner(min(len(send), most) / size / n * size)
	reads := need == engine.Everybody || me == x.root
	share, before := 0, 0 // of the piece before: the last shares may be shorter, and are padded
	for off := 0; ; off += most {
		k := min(max(len(send)-off, 0), most)
		turn := engine.Turn{Need: engine.Everybody, Tail: all[:share], Want: k + share}
		next := (k/size + n - 1) / n * size
		lo, hi := min(me*next, k), min((me+1)*next, k)
		if k > 0 {
			turn.Send, turn.Own = send[off:off+k], true
			turn.Off, turn.Len, turn.Into, turn.Stride, turn.Combine = lo, hi-lo, all, hi-lo, where
		} else {
			turn.Need, turn.One = need, x.root
		}
		padded := before < n*share // only in the last piece, after which all is free
		switch {
		case !reads || share == 0:
		case padded:
			turn.TailLen, turn.TailInto = share, all
		default:
			turn.TailLen, turn.TailInto = share, recv[off-most:][:before]
		}
		if err := x.take(turn); err != nil {
			return err
		}
		if reads && padded {
			copy(recv[off-most:], all[:before])
		}
		if k == 0 {
			return nil
		}
		if where == nil {
			x.fold(all, hi-lo, n)
		}
		share, before = next, k
	}
}
