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
func allreduce[T any](x *collective, send, recv []T, op Operator[T]) error {
	if x.c.size == 1 {
		copyApart(recv, send)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return allreduceShared(x, send, recv, op, rule.Segment)
	case coll.Central:
		return allreduceCentral(x, send, recv, op)
	case coll.Linear:
		return allreduceLinear(x, send, recv, op)
	case coll.Levels:
		return allreduceLevels(x, send, recv, op)
	case coll.Halving:
		return allreduceHalving(x, send, recv, op, rule.Segment)
	case coll.Pairwise:
		return allreducePairwise(x, send, recv, op)
	}
	// Of two ranks, only one that would combine in the wrong order has to copy.
	if rule.Algorithm == coll.Doubling && x.c.size == 2 && !same(send, recv) && (x.c.rank == 1 || op.Commutative()) {
		if err := x.exchange(1-x.c.rank, bytesOf(send), 1-x.c.rank, bytesOf(recv)); err != nil {
			return err
		}
		combineTwo(recv, send, x.c.rank == 0, op)
		return nil
	}
	copyApart(recv, send)
	switch {
	case rule.Algorithm == coll.Ring && op.Commutative():
		b := evenly(len(recv), x.c.size)
		if err := ringReduceScatter(x, recv, b, op); err != nil {
			return err
		}
		return x.ring(bytesOf(recv), b, 0)
	case rule.Algorithm == coll.Binomial:
		x.root = 0
		if err := reduceTree(x, recv, recv, op); err != nil {
			return err
		}
		return x.bcastTree(bytesOf(recv))
	}
	return doubleReduce(x, recv, op)
}

// combineTwo combines mine with acc, into acc, on one of two ranks that both do so. mine is the lower rank's or the upper's. Of
// two NaNs a processor keeps the first operand, so both ranks give the same one first, to the same loop: an addition that a compiler has
// turned round would keep the other.
func combineTwo[T any](acc, mine []T, lower bool, op Operator[T]) {
	p, ok := op.(twofold[T])
	switch {
	case !ok:
		op.Apply(acc, mine)
	case lower:
		p.join2(acc, mine, acc)
	default:
		p.join2(acc, acc, mine)
	}
}

// allreduceCentral leaves the work to rank 0.
func allreduceCentral[T any](x *collective, send, recv []T, op Operator[T]) error {
	if x.c.rank != 0 {
		return x.exchange(0, bytesOf(send), 0, bytesOf(recv))
	}
	if err := foldAll(x, send, recv, op); err != nil {
		return err
	}
	for r := 1; r < x.c.size; r++ {
		x.put(r, bytesOf(recv))
	}
	return x.run()
}

// allreduceLinear gives everybody's contribution to everybody.
func allreduceLinear[T any](x *collective, send, recv []T, op Operator[T]) error {
	n, k := x.c.size, len(send)
	all, s := borrowSlice[T](n * k)
	defer s.giveBack()
	copy(all[x.c.rank*k:], send)
	if err := x.allgatherLinear(bytesOf(all), equal(k, n)); err != nil {
		return err
	}
	fold(all, k, n, op)
	copy(recv, all[:k])
	return nil
}

// allreduceShared combines short buffers on one rank for all, or on every rank, or on rank 0, which then sends
// the result to all. Of long buffers each rank combines a share of each piece.
func allreduceShared[T any](x *collective, send, recv []T, op Operator[T], segment int) error {
	if c := x.combinesOnce(allreduceOnce); c != nil {
		return foldOnce(x, send, recv, 0, c)
	}
	switch all := x.c.size * x.bytes; {
	case all <= min(foldAlone, x.piece(segment)):
		return foldShared(x, send, recv, op, engine.Everybody, 0)
	case all <= foldByOne && x.bytes <= x.piece(segment):
		if err := foldShared(x, send, recv, op, engine.ToOne, 0); err != nil {
			return err
		}
		return x.bcastShared(bytesOf(recv), 0, segment)
	}
	return shareOut(x, send, recv, op, engine.Everybody, segment)
}

// Up to foldAlone bytes of all ranks together, it is faster that every rank combines everything. Up to
// foldByOne bytes, it is faster that one rank combines for all than that they share the work.
const (
	foldAlone = 2 << 10
	foldByOne = 64 << 10
)

// foldShared combines all contributions into recv, on the ranks that need names: all, or one.
func foldShared[T any](x *collective, send, recv []T, op Operator[T], need engine.Need, one int) error {
	turn := engine.Turn{Need: need, One: one, Send: bytesOf(send), Want: x.bytes}
	if need == engine.ToOne && x.c.rank != one {
		return x.take(turn)
	}
	n, k := x.c.size, len(send)
	turn.Len = x.bytes
	if turn.Combine = x.combiner(x.bytes); turn.Combine != nil {
		turn.Into = bytesOf(recv)
		return x.take(turn)
	}
	all, s := borrowSlice[T](n * k)
	defer s.giveBack()
	turn.Into, turn.Stride = bytesOf(all), x.bytes
	if err := x.take(turn); err != nil {
		return err
	}
	fold(all, k, n, op)
	copy(recv, all[:k])
	return nil
}

// shareOut combines all send, piece by piece. Each rank takes a share of the piece from all boards, combines
// it, and posts the result with the next piece. The results go to all ranks' recv, or to the root's.
func shareOut[T any](x *collective, send, recv []T, op Operator[T], need engine.Need, segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	most := max(x.piece(segment)/((n+1)*size), 1) * n
	all, s := borrowSlice[T](most)
	defer s.giveBack()
	where := x.combiner(min(len(send), most) / n * size)
	reads := need == engine.Everybody || me == x.root
	share, before := 0, 0 // of the piece before: the last shares may be shorter, and are padded
	for off := 0; ; off += most {
		k := min(max(len(send)-off, 0), most)
		turn := engine.Turn{Need: engine.Everybody, Tail: bytesOf(all[:share]), Want: (k + share) * size}
		next := (k + n - 1) / n
		lo, hi := min(me*next, k), min((me+1)*next, k)
		if k > 0 {
			turn.Send, turn.Own = bytesOf(send[off:off+k]), true
			turn.Off, turn.Len, turn.Into, turn.Stride, turn.Combine = lo*size, (hi-lo)*size, bytesOf(all), (hi-lo)*size, where
		} else {
			turn.Need, turn.One = need, x.root
		}
		padded := before < n*share // only in the last piece, after which all is free
		switch {
		case !reads || share == 0:
		case padded:
			turn.TailLen, turn.TailInto = share*size, bytesOf(all)
		default:
			turn.TailLen, turn.TailInto = share*size, bytesOf(recv[off-most:][:before])
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
			fold(all, hi-lo, n, op)
		}
		share, before = next, k
	}
}

// allreducePairwise is a ReduceScatter in which every rank sends every other rank its share, then an Allgather.
func allreducePairwise[T any](x *collective, send, recv []T, op Operator[T]) error {
	b := evenly(len(send), x.c.size)
	lo, hi := b.at(x.c.rank)
	if err := pairwiseReduce(x, send, recv[lo:hi], &b, op); err != nil {
		return err
	}
	return x.allgatherLinear(bytesOf(recv), b)
}

// doubleReduce is recursive doubling. In each round pairs of participants (see order) combine, lower with
// upper, both sides alike. Where two ranks are one participant, the lower gives its contribution to the upper
// and gets the result at the end.
func doubleReduce[T any](x *collective, acc []T, op Operator[T]) error {
	o, me := schedule.OrderOf(x.c.size), x.c.rank
	v, partner := o.Participant(me), o.Partner(me)
	tmp, s := borrowSlice[T](len(acc))
	defer s.giveBack()
	ap, tp := bytesOf(acc), bytesOf(tmp)
	if partner > me {
		if err := x.send(partner, ap); err != nil {
			return err
		}
		return x.recv(partner, ap)
	}
	if partner >= 0 {
		if err := x.recv(partner, tp); err != nil {
			return err
		}
		below(acc, tmp, op)
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		peer := o.Worker(v^bit, noRoot)
		if err := x.exchange(peer, ap, peer, tp); err != nil {
			return err
		}
		combine(acc, tmp, peer < me, op)
	}
	if partner >= 0 {
		return x.send(partner, ap)
	}
	return nil
}
