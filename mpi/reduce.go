package mpi

// Reduce combines all ranks' send, element by element, into root's recv. All
// pass the same length, operator and root; recv is of that length at the root
// and not looked at elsewhere (nil will do). Errors: ErrRank, ErrCount,
// ErrBuffer, ErrOp, ErrType, ErrComm, ErrMismatch, ErrPeerFailed, ErrDeadline.
// (MPI-4.1, chapter 6.9.1)
func Reduce[T any](c *Comm, send, recv []T, op Op[T], root int) error {
	t, err := elem[T]()
	sp := bytesOf(send)
	err = first(err, checkOp(op))
	if c.Rank() == root {
		err = first(err, compare("recv", len(recv), len(send)), apart(sp, bytesOf(recv)))
	}
	x, err := c.enter(kindReduce, root, t, len(sp), err)
	if err != nil {
		return err
	}
	acc, s := recv, (*scratch)(nil)
	if c.rank != root {
		acc, s = borrowSlice[T](len(send))
	}
	copy(acc, send)
	err = reduce(&x, acc, op)
	s.giveBack()
	return x.leave(err)
}

// ReduceInPlace is Reduce where buf is both, at the root: it holds the root's
// contribution before and the result after. Elsewhere buf is only read. Errors:
// as Reduce. (MPI-4.1, chapter 6.9.1)
func ReduceInPlace[T any](c *Comm, buf []T, op Op[T], root int) error {
	t, err := elem[T]()
	x, err := c.enter(kindReduce, root, t, len(bytesOf(buf)), first(err, checkOp(op)))
	if err != nil {
		return err
	}
	acc, s := buf, (*scratch)(nil)
	if c.rank != root {
		acc, s = borrowSlice[T](len(buf))
		copy(acc, buf)
	}
	err = reduce(&x, acc, op)
	s.giveBack()
	return x.leave(err)
}

func checkOp[T any](op Op[T]) error {
	if op == nil {
		return ErrOp
	}
	return nil
}

// reduce combines all acc into that of the root; elsewhere acc is used up.
func reduce[T any](x *collective, acc []T, op Op[T]) error {
	c := x.c
	commutes := op.Commutative()
	if useRingReduce(c.size, x.bytes, commutes) {
		b := evenly(len(acc), c.size)
		if err := ringReduceScatter(x, acc, b, op); err != nil {
			return err
		}
		return x.collect(bytesOf(acc), b)
	}
	if commutes || x.root == 0 {
		return reduceTree(x, acc, op, x.root)
	}
	// Neighbouring ranges must be combined in order, so rank 0 does it.
	if err := reduceTree(x, acc, op, 0); err != nil {
		return err
	}
	switch c.rank {
	case 0:
		return x.send(x.root, bytesOf(acc))
	case x.root:
		return x.recv(0, bytesOf(acc))
	}
	return nil
}

// reduceTree combines up the binomial tree: in the round of bit b a rank whose
// lowest bits are zero takes what the one b above it has made of its b ranks.
func reduceTree[T any](x *collective, acc []T, op Op[T], root int) error {
	n := x.c.size
	v := (x.c.rank - root + n) % n
	tmp, s := borrowSlice[T](len(acc))
	defer s.giveBack()
	for bit := 1; bit < n; bit *= 2 {
		if v&bit != 0 {
			return x.send((v-bit+root)%n, bytesOf(acc))
		}
		if v+bit < n {
			if err := x.recv((v+bit+root)%n, bytesOf(tmp)); err != nil {
				return err
			}
			op.Apply(acc, tmp)
		}
	}
	return nil
}

// ringReduceScatter leaves the combination of all ranks' block i in rank i's
// acc; the other blocks of acc are used up. Block i starts at the rank above i
// and goes once round, so its order depends on n alone.
func ringReduceScatter[T any](x *collective, acc []T, b blocks, op Op[T]) error {
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

// collect brings every rank's block to the root.
func (x *collective) collect(p []byte, b blocks) error {
	if x.c.rank != x.root {
		return x.send(x.root, b.of(p, x.t.Size, x.c.rank))
	}
	return x.recvAll(p, b)
}
