package mpi

import "fmt"

// What the collectives with an operator have in common: how such a call begins and ends, and what the ranks
// must agree on about its operator.

// reduction is a call with an operator. It begins the call, has steps carried out, and ends the call, even if
// the operator panics.
func reduction[T any](c *Comm, k kind, root int, send, recv []T, named Op[T], wrong error, steps func(x *collective, send, recv []byte) error) error {
	t, err := elem[T]()
	op := named.operator()
	own, code := codeOf(op)
	if err == nil && code == 0 {
		err = errNoOp
	}
	if err == nil {
		err = wrong
	}
	sp, rp := bytesOf(send), bytesOf(recv)
	x, err := c.begin(k, root, t, len(sp), code, err)
	if err != nil {
		return err
	}
	x.own, x.commutes = own, op.Commutative()
	if own != nil {
		x.by = own
		return x.leave(steps(x, sp, rp))
	}
	x.by = bytewiseOf(op, &x.wrapped)
	return x.leave(x.guarded(sp, rp, steps))
}

// guarded carries out the steps of a call whose operator is the program's. The operator may panic, or end its
// goroutine. Then the other ranks would wait for this one in vain, so guarded ends the call with an error on
// all ranks.
func (x *collective) guarded(send, recv []byte, steps func(x *collective, send, recv []byte) error) error {
	returned := false
	defer func() {
		if !returned {
			clear(x.c.coll.moves)
			x.c.coll.moves = x.c.coll.moves[:0]
			_ = x.leave(fmt.Errorf("%w: it has panicked on rank %d", ErrOp, x.c.rank)) // the caller has its panic
		}
	}()
	err := steps(x, send, recv)
	returned = true
	return err
}

var errNoOp = fmt.Errorf("%w: there is none (nil)", ErrOp)

// A call's signature holds an operator's code. Of a program's operator it tells only whether it is commutative:
// the same function may be written in several places, for example once for the root and once for the others.
const (
	noOp      = 0
	commuting = 1
	ordered   = 2
	firstOwn  = 3 // first code of this package's operators
)

// codeOf returns the operator's code, and the operator itself if it is one of this package.
func codeOf[T any](op Operator[T]) (own predefined, code uint8) {
	if own, ok := op.(predefined); ok {
		return own, firstOwn + own.number()
	}
	f, ok := op.(opFunc[T])
	switch {
	case op == nil || ok && f.apply == nil:
		return nil, noOp
	case op.Commutative():
		return nil, commuting
	}
	return nil, ordered
}
