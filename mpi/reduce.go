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
func reduce[T any](x *collective, send, recv []T, op Operator[T]) error {
	if x.c.size == 1 {
		copy(recv, send)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return reduceShared(x, send, recv, op, rule.Segment)
	case coll.Central:
		if x.c.rank != x.root {
			return x.send(x.root, bytesOf(send))
		}
		return foldAll(x, send, recv, op)
	}
	acc := recv
	if x.c.rank != x.root {
		var s *scratch
		acc, s = borrowSlice[T](len(send))
		defer s.giveBack()
	}
	switch {
	case rule.Algorithm == coll.Ring && op.Commutative():
		copy(acc, send)
		b := evenly(len(acc), x.c.size)
		if err := ringReduceScatter(x, acc, b, op); err != nil {
			return err
		}
		if x.c.rank != x.root {
			return x.send(x.root, b.of(bytesOf(acc), x.t.Size, x.c.rank))
		}
		return x.recvAll(bytesOf(acc), b)
	case rule.Algorithm == coll.Halving:
		return reduceHalving(x, send, acc, op, rule.Segment)
	}
	pieces := x.pieces(x.bytes, rule.Segment)
	for i := range pieces.n { // while a rank passes one piece on, the next one arrives
		lo, hi := pieces.at(i)
		if err := reduceTree(x, send[lo:hi], acc[lo:hi], op); err != nil {
			return err
		}
	}
	return nil
}

// reduceShared combines short buffers on the root. Of long buffers every rank combines a share.
func reduceShared[T any](x *collective, send, recv []T, op Operator[T], segment int) error {
	if x.c.size*x.bytes <= foldByOne && x.bytes <= x.piece(segment) {
		return foldShared(x, send, recv, op, engine.ToOne, x.root)
	}
	return shareOut(x, send, recv, op, engine.ToOne, segment)
}

// foldAll receives all other ranks' contributions, each as long as send, and combines them all into recv.
func foldAll[T any](x *collective, send, recv []T, op Operator[T]) error {
	n, k := x.c.size, len(send)
	all, s := borrowSlice[T](n * k)
	defer s.giveBack()
	if err := x.recvAll(bytesOf(all), equal(k, n)); err != nil {
		return err
	}
	copy(all[x.c.rank*k:], send)
	fold(all, k, n, op)
	copy(recv, all[:k])
	return nil
}

// reduceTree combines up a tree of participants (see order). A rank combines what it receives in acc, and sends
// the result towards the root. Only the root needs acc after the call.
func reduceTree[T any](x *collective, send, acc []T, op Operator[T]) error {
	o, me := schedule.OrderOf(x.c.size), x.c.rank
	v, root := o.Participant(me), o.Participant(x.root)
	tmp, s := borrowSlice[T](len(send))
	defer s.giveBack()
	have := send
	take := func(from int) error {
		if err := x.recv(from, bytesOf(tmp)); err != nil {
			return err
		}
		copyApart(acc, have)
		have = acc
		combine(acc, tmp, from < me, op)
		return nil
	}
	if partner := o.Partner(me); partner >= 0 {
		if o.Worker(v, x.root) != me {
			return x.send(partner, bytesOf(have))
		}
		if err := take(partner); err != nil {
			return err
		}
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		if (v^root)&bit != 0 {
			return x.send(o.Worker(v^bit, x.root), bytesOf(have))
		}
		if err := take(o.Worker(v^bit, x.root)); err != nil {
			return err
		}
	}
	return nil
}

// ringReduceScatter leaves the combination of all ranks' block i in rank i's acc. The other blocks of acc are
// used up. Block i starts at the rank above i and goes once round, so its order depends on n alone.
func ringReduceScatter[T any](x *collective, acc []T, b blocks, op Operator[T]) error {
	n, me := x.c.size, x.c.rank
	longest := 0
	for i := range n {
		lo, hi := b.at(i)
		longest = max(longest, hi-lo)
	}
	tmp, s := borrowSlice[T](longest)
	defer s.giveBack()
	right, left := (me+1)%n, (me-1+n)%n
	for step := 1; step < n; step++ {
		olo, ohi := b.at((me - step + n) % n)
		ilo, ihi := b.at((me - step - 1 + 2*n) % n)
		in := tmp[:ihi-ilo]
		if err := x.exchange(right, bytesOf(acc[olo:ohi]), left, bytesOf(in)); err != nil {
			return err
		}
		op.Apply(acc[ilo:ihi], in)
	}
	return nil
}
