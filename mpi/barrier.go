package mpi

import "reflect"

// Barrier returns when all ranks of c have called it. Errors: ErrComm,
// ErrMismatch, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.3)
func Barrier(c *Comm) error {
	x, err := c.enter(kindBarrier, noRoot, &basics[reflect.Uint8], 0, nil)
	if err != nil {
		return err
	}
	return x.leave(x.disseminate())
}

// disseminate is the dissemination barrier: in round k every rank hears from
// the one 2^k below; after ceil(log2 n) rounds it has heard of everybody.
func (x *collective) disseminate() error {
	n, me := x.c.size, x.c.rank
	for d := 1; d < n; d *= 2 {
		if err := x.exchange((me+d)%n, nil, (me-d+n)%n, nil); err != nil {
			return err
		}
	}
	return nil
}
