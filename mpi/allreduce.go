package mpi

// Allreduce combines all ranks' send, element by element, into every rank's
// recv. All pass the same length and operator, and all get the same bits.
// Errors: ErrCount, ErrBuffer, ErrOp, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.9.6)
func Allreduce[T any](c *Comm, send, recv []T, op Op[T]) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	x, err := c.enter(kindAllreduce, noRoot, t, len(sp), first(err, checkOp(op), compare("recv", len(recv), len(send)), apart(sp, rp)))
	if err != nil {
		return err
	}
	copy(recv, send)
	return x.leave(allreduce(&x, recv, op))
}

// AllreduceInPlace is Allreduce where buf holds each rank's contribution before
// and the result after. Errors: as Allreduce. (MPI-4.1, chapter 6.9.6)
func AllreduceInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	t, err := elem[T]()
	x, err := c.enter(kindAllreduce, noRoot, t, len(bytesOf(buf)), first(err, checkOp(op)))
	if err != nil {
		return err
	}
	return x.leave(allreduce(&x, buf, op))
}

func allreduce[T any](x *collective, acc []T, op Op[T]) error {
	n := x.c.size
	if n == 1 {
		return nil
	}
	if useRingAllreduce(n, x.bytes, op.Commutative()) {
		b := evenly(len(acc), n)
		if err := ringReduceScatter(x, acc, b, op); err != nil {
			return err
		}
		return x.ring(bytesOf(acc), b, 0)
	}
	return doubleReduce(x, acc, op)
}

// doubleReduce is recursive doubling: in each round pairs of neighbouring
// ranges of ranks combine, lower with upper, both sides alike. With n no power
// of two, the first 2*(n-2^k) ranks go in pairs: the even one lends its
// contribution to the odd one and gets the result at the end.
func doubleReduce[T any](x *collective, acc []T, op Op[T]) error {
	n, me := x.c.size, x.c.rank
	whole := 1
	for whole*2 <= n {
		whole *= 2
	}
	extra := n - whole // pairs among the first 2*extra ranks
	tmp, s := borrowSlice[T](len(acc))
	defer s.giveBack()
	ap, tp := bytesOf(acc), bytesOf(tmp)

	v := me - extra // number among the ranks that take part
	if me < 2*extra {
		if me%2 == 0 {
			if err := x.send(me+1, ap); err != nil {
				return err
			}
			return x.recv(me+1, ap)
		}
		if err := x.recv(me-1, tp); err != nil {
			return err
		}
		below(acc, tmp, op)
		v = me / 2
	}
	for bit := 1; bit < whole; bit *= 2 {
		w := v ^ bit
		peer := w + extra
		if w < extra {
			peer = 2*w + 1
		}
		if err := x.exchange(peer, ap, peer, tp); err != nil {
			return err
		}
		if w > v {
			op.Apply(acc, tmp)
		} else {
			below(acc, tmp, op)
		}
	}
	if me < 2*extra {
		return x.send(me-1, ap)
	}
	return nil
}

// below combines low, which comes from lower ranks, with acc, into acc; low is
// used up.
func below[T any](acc, low []T, op Op[T]) {
	op.Apply(low, acc)
	copy(acc, low)
}
