package mpi

// ReduceScatterBlock combines all ranks' send, element by element, and gives
// rank i the i-th block of the result: len(send) is Size() times len(recv),
// which is the same everywhere. Errors: as Allreduce. (MPI-4.1, chapter
// 6.10.1)
func ReduceScatterBlock[T any](c *Comm, send, recv []T, op Op[T]) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	n := c.Size()
	x, err := c.enter(kindReduceScatterBlock, noRoot, t, len(sp), first(err, checkOp(op), compare("send", len(send), n*len(recv)), apart(sp, rp)))
	if err != nil {
		return err
	}
	return x.leave(reduceScatter(&x, send, recv, equal(len(recv), n), op))
}

// ReduceScatterBlockInPlace is ReduceScatterBlock where buf holds the
// contribution before, and in its first len(buf)/Size() elements the result
// after; the rest of buf is used up. Errors: as Allreduce. (MPI-4.1, chapter
// 6.10.1)
func ReduceScatterBlockInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	t, err := elem[T]()
	n := max(c.Size(), 1)
	k := len(buf) / n
	x, err := c.enter(kindReduceScatterBlock, noRoot, t, len(bytesOf(buf)), first(err, checkOp(op), compare("buf", len(buf), k*n)))
	if err != nil {
		return err
	}
	return x.leave(reduceScatterInPlace(&x, buf, equal(k, n), op))
}

// ReduceScatter is ReduceScatterBlock with blocks of different lengths: rank i
// gets counts[i] elements. counts is the same on all ranks. Errors: as
// Allreduce. (MPI-4.1, chapter 6.10.2)
func ReduceScatter[T any](c *Comm, send, recv []T, counts []int, op Op[T]) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, berr := shares("send", c, len(send), counts, tmp)
	if berr == nil && c.ready() == nil {
		berr = compare("recv", len(recv), counts[c.rank])
	}
	x, err := c.enter(kindReduceScatter, noRoot, t, len(sp), first(err, checkOp(op), berr, apart(sp, rp)))
	if err != nil {
		return err
	}
	return x.leave(reduceScatter(&x, send, recv, b, op))
}

// ReduceScatterInPlace is ReduceScatter where buf holds the contribution
// before, and in its first counts[Rank()] elements the result after; the rest
// of buf is used up. Errors: as Allreduce. (MPI-4.1, chapter 6.10.2)
func ReduceScatterInPlace[T any](c *Comm, buf []T, counts []int, op Op[T]) error {
	t, err := elem[T]()
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, berr := shares("buf", c, len(buf), counts, tmp)
	x, err := c.enter(kindReduceScatter, noRoot, t, len(bytesOf(buf)), first(err, checkOp(op), berr))
	if err != nil {
		return err
	}
	return x.leave(reduceScatterInPlace(&x, buf, b, op))
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

func reduceScatter[T any](x *collective, send, recv []T, b blocks, op Op[T]) error {
	acc, s := borrowSlice[T](len(send))
	defer s.giveBack()
	copy(acc, send)
	if err := combineShares(x, acc, b, op); err != nil {
		return err
	}
	lo, hi := b.at(x.c.rank)
	copy(recv, acc[lo:hi])
	return nil
}

func reduceScatterInPlace[T any](x *collective, buf []T, b blocks, op Op[T]) error {
	if err := combineShares(x, buf, b, op); err != nil {
		return err
	}
	lo, hi := b.at(x.c.rank)
	copy(buf, buf[lo:hi])
	return nil
}

// combineShares leaves the combination of all ranks' block i in rank i's acc.
func combineShares[T any](x *collective, acc []T, b blocks, op Op[T]) error {
	if x.c.size == 1 {
		return nil
	}
	if useRingReduceScatter(x.bytes, op.Commutative()) {
		return ringReduceScatter(x, acc, b, op)
	}
	return doubleReduce(x, acc, op)
}
