package mpi

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// ReduceScatterBlock combines all ranks' send, element by element, and gives rank i the i-th block of the
// result. len(send) is Size() times len(recv), which is the same everywhere. Errors: as Allreduce. (MPI-4.1,
// chapter 6.10.1)
func ReduceScatterBlock[T any](c *Comm, send, recv []T, op Op[T]) error {
	if c.crosses() {
		return crossReduceScatter(c, kindReduceScatterBlock, send, recv, slices.Repeat([]int{len(recv)}, c.Size()), op)
	}
	b := equal(len(recv), c.Size())
	err := first(compare("send", len(send), c.Size()*len(recv)), apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, kindReduceScatterBlock, noRoot, send, recv, op, err, func(x *collective, send, recv []T, op Operator[T]) error {
		return reduceScatter(x, send, recv, b, op)
	})
}

// ReduceScatterBlockInPlace is ReduceScatterBlock where buf holds the contribution before. After the call its
// first len(buf)/Size() elements are the result, and the rest is used up. Errors: as Allreduce. (MPI-4.1,
// chapter 6.10.1)
func ReduceScatterBlockInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	n := max(c.Size(), 1)
	k := len(buf) / n
	return reduction(c, kindReduceScatterBlock, noRoot, buf, buf[:k], op, compare("buf", len(buf), k*n), func(x *collective, send, recv []T, op Operator[T]) error {
		return reduceScatter(x, send, recv, equal(k, n), op)
	})
}

// ReduceScatter is ReduceScatterBlock with blocks of different lengths: rank i gets counts[i] elements. counts
// is the same on all ranks. Errors: as Allreduce. (MPI-4.1, chapter 6.10.2)
func ReduceScatter[T any](c *Comm, send, recv []T, counts []int, op Op[T]) error {
	if c.crosses() {
		return crossReduceScatter(c, kindReduceScatter, send, recv, counts, op)
	}
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, err := shares("send", c, len(send), counts, tmp)
	if err == nil && c.ready() == nil {
		err = compare("recv", len(recv), counts[c.rank])
	}
	err = first(err, apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, kindReduceScatter, noRoot, send, recv, op, err, func(x *collective, send, recv []T, op Operator[T]) error {
		return reduceScatter(x, send, recv, b, op)
	})
}

// ReduceScatterInPlace is ReduceScatter where buf holds the contribution before. After the call its first
// counts[Rank()] elements are the result, and the rest is used up. Errors: as Allreduce. (MPI-4.1, chapter
// 6.10.2)
func ReduceScatterInPlace[T any](c *Comm, buf []T, counts []int, op Op[T]) error {
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, err := shares("buf", c, len(buf), counts, tmp)
	return reduction(c, kindReduceScatter, noRoot, buf, buf, op, err, func(x *collective, send, recv []T, op Operator[T]) error {
		return reduceScatter(x, send, recv[:counts[c.rank]], b, op)
	})
}

// shares checks that the counts add up to the whole buffer.
func shares(what string, c *Comm, have int, counts []int, tmp []int) (blocks, error) {
	b, err := explicit(what, c.Size(), have, counts, nil, tmp)
	if err != nil {
		return b, err
	}
	total := 0
	for _, k := range counts {
		total += k
	}
	return b, compare(what, have, total)
}

// reduceScatter combines all ranks' block i of send into rank i's recv. recv may be the beginning of send; then
// send is used up.
func reduceScatter[T any](x *collective, send, recv []T, b blocks, op Operator[T]) error {
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
		return reduceScatterShared(x, send, recv, b, op, rule.Segment)
	case coll.Central:
		return reduceScatterCentral(x, send, recv, b, op)
	case coll.Pairwise, coll.Halving:
		switch {
		case x.c.size == 2:
			return reduceScatterTwo(x, send, recv, b, op, rule.Segment)
		case rule.Algorithm == coll.Pairwise:
			return pairwiseReduce(x, send, recv, &b, op)
		}
		return reduceScatterHalving(x, send, recv, b, op, rule.Segment)
	}
	acc, s := borrowSlice[T](len(send))
	defer s.giveBack()
	copy(acc, send)
	if rule.Algorithm == coll.Ring && op.Commutative() {
		err = ringReduceScatter(x, acc, b, op)
	} else {
		err = doubleReduce(x, acc, op)
	}
	if err != nil {
		return err
	}
	lo, hi := b.at(x.c.rank)
	copy(recv, acc[lo:hi])
	return nil
}

// reduceScatterCentral leaves the work to rank 0.
func reduceScatterCentral[T any](x *collective, send, recv []T, b blocks, op Operator[T]) error {
	if x.c.rank != 0 {
		return x.exchange(0, bytesOf(send), 0, bytesOf(recv))
	}
	acc, s := borrowSlice[T](len(send))
	defer s.giveBack()
	if err := foldAll(x, send, acc, op); err != nil {
		return err
	}
	_, hi := b.at(0)
	copy(recv, acc[:hi])
	return x.sendAll(bytesOf(acc), b)
}

// reduceScatterShared combines short buffers on one rank. Otherwise all ranks post the same part of all blocks
// at once, and each takes its own block from all boards. recv may be the beginning of send: it never grows
// beyond what was posted.
func reduceScatterShared[T any](x *collective, send, recv []T, b blocks, op Operator[T], segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	if c := x.combinesOnce(reduceScatterOnce); c != nil {
		lo, _ := b.at(me)
		return foldOnce(x, send, recv, lo, c)
	}
	longest := 0
	for i := range n {
		lo, hi := b.at(i)
		longest = max(longest, hi-lo)
	}
	most := x.piece(segment) / size
	where := x.combiner(min(longest, most/n) * size)
	all, s := borrowSlice[T](most)
	defer s.giveBack()
	return strips(n, longest, most, func(off, k int) error {
		own := min(max(len(recv)-off, 0), k)
		turn := engine.Turn{Need: engine.Everybody, Want: n * k * size, Off: me * k * size, Len: own * size, Into: bytesOf(all), Stride: own * size}
		if turn.Combine = where; where != nil && own > 0 {
			turn.Into = bytesOf(recv[off:])
		}
		if b.counts == nil {
			turn.Send, turn.SendStride, turn.SendLen = bytesOf(send[off:]), longest*size, k*size
			turn.Own = true
		} else { // shorter blocks are padded
			for i := range n {
				lo, hi := b.at(i)
				copy(all[i*k:(i+1)*k], send[min(lo+off, hi):min(lo+off+k, hi)])
			}
			turn.Send = bytesOf(all[:n*k])
		}
		if err := x.take(turn); err != nil || own == 0 || where != nil {
			return err
		}
		fold(all, own, n, op)
		copy(recv[off:], all[:own])
		return nil
	})
}

// pairwiseReduce sends every other rank its block of send. At the same time it receives the others'
// contributions to its own block, and then combines them.
func pairwiseReduce[T any](x *collective, send, recv []T, b *blocks, op Operator[T]) error {
	n, me := x.c.size, x.c.rank
	lo, hi := b.at(me)
	k := hi - lo
	all, s := borrowSlice[T](n * k)
	defer s.giveBack()
	in := equal(k, n)
	if err := x.spread(bytesOf(send), b, bytesOf(all), &in); err != nil {
		return err
	}
	copy(all[me*k:(me+1)*k], send[lo:hi])
	fold(all, k, n, op)
	copy(recv, all[:k])
	return nil
}

// reduceScatterTwo is one exchange between two ranks. It copies only where it must.
func reduceScatterTwo[T any](x *collective, send, recv []T, b blocks, op Operator[T], segment int) error {
	me := x.c.rank
	lo, hi := b.at(me)
	olo, ohi := b.at(1 - me)
	m := &meeting[T]{peer: 1 - me, lower: me == 1, out: send[olo:ohi], own: send[lo:hi], acc: recv}
	if overlap(bytesOf(send), bytesOf(recv)) {
		m.acc = m.own
	}
	err := meet(x, m, op, segment)
	copyApart(recv, m.acc)
	return err
}

// reduceScatterHalving is halve with the blocks in the order in which the rounds leave them: participant v ends
// with the block whose number is v with its bits reversed.
func reduceScatterHalving[T any](x *collective, send, recv []T, b blocks, op Operator[T], segment int) error {
	h := x.halvesOf(0)
	defer h.mem.giveBack()
	src, s := borrowSlice[T](len(send))
	defer s.giveBack()
	turned := src
	h.at[0] = 0
	for i := range h.Whole {
		v := reversed(i, h.Whole)
		lo, hi := h.share(&b, v)
		h.at[i+1] = h.at[i] + copy(turned[h.at[i]:], send[lo:hi])
	}
	partner := h.Partner(x.c.rank)
	done, err := pairUp(x, &h, turned, turned, noRoot, op)
	switch {
	case err != nil:
		return err
	case done:
		return x.recv(partner, bytesOf(recv))
	}
	if err := halve(x, &h, turned, turned, noRoot, op, segment); err != nil {
		return err
	}
	mine := part(&h, turned, [2]int{h.lo, h.hi})
	if partner >= 0 { // the upper rank of a pair: its block is the second of the two
		lo, hi := b.at(partner)
		if err := x.send(partner, bytesOf(mine[:hi-lo])); err != nil {
			return err
		}
		mine = mine[hi-lo:]
	}
	copy(recv, mine)
	return nil
}

// share returns where in a buffer the blocks of a participant's ranks lie.
func (h *halves) share(b *blocks, v int) (lo, hi int) {
	rank := h.First(v)
	lo, hi = b.at(rank)
	if h.Partner(rank) >= 0 {
		_, hi = b.at(rank + 1)
	}
	return lo, hi
}

// reversed returns v with its bits in reverse order. It has as many bits as whole-1.
func reversed(v, whole int) int {
	r := 0
	for bit := 1; bit < whole; bit *= 2 {
		r = r<<1 | v&1
		v >>= 1
	}
	return r
}
