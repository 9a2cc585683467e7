package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Collectives on intercommunicators (MPI-4.1, chapter 6.2.3). Each group does its part on its own communicator, and
// what goes across are messages: between the first ranks of the groups, or between every rank and every other.
// Where it has a root, the root says Root, the other ranks of its group ProcNull, and those of the other group its
// rank.
//
// What fails in one group poisons the intercommunicator, and so fails in the other. The watch looks at it and at the
// communicators of the groups.

// cross begins a collective on an intercommunicator. wrong is what is wrong with its arguments. Unlike on an
// intracommunicator, it poisons the intercommunicator at once.
func (c *Comm) cross(k kind, root int, t *engine.Type, op uint8, wrong error) (*collective, error) {
	if err := c.joins(); err != nil {
		return nil, c.fail(k.String(), err)
	}
	seq, err := c.acquire()
	if err != nil {
		return nil, c.fail(k.String(), err)
	}
	x := &c.coll.call
	x.c, x.t, x.eng, x.seq, x.kind, x.root, x.op, x.bytes = c, t, c.env.eng, seq, k, noRoot, op, -1
	sign := x.signature()
	x.tag = int32(k&^forms)<<26 | int32(seq&0x3ff)<<16 | int32(sign)
	x.root = root
	if k.rooted() && wrong == nil && root != Root && root != ProcNull && uint(root) >= uint(c.size) {
		wrong = fmt.Errorf("%w: root %d of a remote group of %d", errRoot, root, c.size)
	}
	if wrong == nil { // a part within the group would not see it, and the others of the group would take that for a call
		wrong = c.env.eng.Poisoned(c.ctx | 1)
	}
	if wrong != nil {
		return nil, x.leave(wrong)
	}
	s := &c.coll
	x.root = acrossRoot(root)
	x.announce(s)
	side := c.agreed(call{root: uint64(x.root)}).root & rootHigh
	x.root = root
	s.team.history = (s.team.history*31+uint16(k))*31 + sign ^ uint16(side)
	return x, nil
}

// group returns the communicator of this rank's group, with the deadline of the call.
func (x *collective) group() *Comm {
	l := x.c.inter.local
	return &Comm{core: l.core, view: x.c.view, ctxt: x.c.ctxt, of: x.c, codec: l.codec}
}

// leading reports whether this rank speaks for its group.
func (x *collective) leading() bool { return x.c.rank == 0 }

// across exchanges the blocks of a call with the ranks of the other group that it has to do with.
func (x *collective) across(send []byte, out schedule.Blocks, recv []byte, in schedule.Blocks) error {
	to, from := x.c.partners(x.kind, x.root)
	s := x.draft()
	schedule.Across(s, to, from, out, in)
	return x.carry(s, send, recv)
}

// crossParts returns the parts of a buffer for the ranks of the other group: of any length, or equal ones.
func (c *Comm) crossParts(what string, have int, counts, displs []int, vector bool) (blocks, error) {
	if vector {
		return explicit(what, c.size, have, counts, displs, make([]int, c.size))
	}
	b := equal(have/c.size, c.size)
	return b, compare(what, have, b.total)
}

func crossBarrier(c *Comm) error {
	x, err := c.cross(kindBarrier, noRoot, &basics[1], noOp, nil)
	if err != nil {
		return err
	}
	if err = Barrier(x.group()); err == nil && x.leading() {
		err = x.exchange(0, nil, 0, nil)
	}
	return x.leave(then(err, func() error { return Barrier(x.group()) }))
}

// then calls f if nothing has gone wrong before.
func then(err error, f func() error) error {
	if err != nil {
		return err
	}
	return f()
}

func crossBcast[T any](c *Comm, buf []T, root int) error {
	t, err := elem[T]()
	x, err := c.cross(kindBcast, root, t, noOp, err)
	if err != nil {
		return err
	}
	switch {
	case root == ProcNull:
	case root == Root:
		err = x.send(0, bytesOf(buf))
	default:
		if x.leading() {
			err = x.recv(root, bytesOf(buf))
		}
		err = then(err, func() error { return Bcast(x.group(), buf, 0) })
	}
	return x.leave(err)
}

// crossPortions is Gather and Scatter: every rank of one group exchanges its part with the root. counts is nil
// where all parts are equal.
func crossPortions[T any](c *Comm, k kind, part, whole []T, counts, displs []int, vector bool, root int) error {
	t, err := elem[T]()
	mine, b, berr := wholeOrPart(c, k, part, whole, counts, displs, vector, root)
	x, err := c.cross(k, root, t, noOp, first(err, berr))
	if err != nil {
		return err
	}
	return x.leave(x.across(bytesOf(mine), b.at, bytesOf(mine), b.at))
}

// wholeOrPart returns a rank's buffer in Gather and Scatter: the whole, which is the root's, or its part, which is one block for the root.
func wholeOrPart[T any](c *Comm, k kind, part, whole []T, counts, displs []int, vector bool, root int) ([]T, blocks, error) {
	if root != Root {
		return part, oneBlock(len(part)), nil
	}
	b, err := c.crossParts(k.wholeName(), len(whole), counts, displs, vector)
	return whole, b, err
}

// crossAllgather is Allgather and, with counts, Allgatherv.
func crossAllgather[T any](c *Comm, k kind, send, recv []T, counts, displs []int, vector bool) error {
	t, err := elem[T]()
	b, berr := c.crossParts("recv", len(recv), counts, displs, vector)
	x, err := c.cross(k, noRoot, t, noOp, first(err, berr, apart(bytesOf(send), bytesOf(recv))))
	if err != nil {
		return err
	}
	return x.leave(x.across(bytesOf(send), schedule.Whole(len(send)), bytesOf(recv), b.at))
}

// crossAlltoall is Alltoall and, with counts, Alltoallv.
func crossAlltoall[T any](c *Comm, k kind, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int, vector bool) error {
	t, err := elem[T]()
	sb, serr := c.crossParts("send", len(send), scounts, sdispls, vector)
	rb, rerr := c.crossParts("recv", len(recv), rcounts, rdispls, vector)
	x, err := c.cross(k, noRoot, t, noOp, first(err, serr, rerr, apart(bytesOf(send), bytesOf(recv))))
	if err != nil {
		return err
	}
	return x.leave(x.across(bytesOf(send), sb.at, bytesOf(recv), rb.at))
}

// crossReduction begins a collective with an operator. What it returns combines the group's send on its first rank.
func crossReduction[T any](c *Comm, k kind, root int, send []T, op Op[T], wrong error) (x *collective, combined []T, reduce func() error, err error) {
	t, err := elem[T]()
	_, code := codeOf(op.operator())
	if err == nil && code == noOp {
		err = errNoOp
	}
	if x, err = c.cross(k, root, t, code, first(err, wrong)); err != nil {
		return nil, nil, nil, err
	}
	if x.leading() {
		combined = make([]T, len(send))
	}
	return x, combined, func() error { return Reduce(x.group(), send, combined, op, 0) }, nil
}

func crossReduce[T any](c *Comm, send, recv []T, op Op[T], root int) error {
	x, combined, reduce, err := crossReduction(c, kindReduce, root, send, op, nil)
	if err != nil {
		return err
	}
	switch {
	case root == ProcNull:
	case root == Root:
		err = x.recv(0, bytesOf(recv))
	default:
		if err = reduce(); err == nil && x.leading() {
			err = x.send(root, bytesOf(combined))
		}
	}
	return x.leave(err)
}

func crossAllreduce[T any](c *Comm, send, recv []T, op Op[T]) error {
	wrong := first(compare("recv", len(recv), len(send)), apart(bytesOf(send), bytesOf(recv)))
	x, combined, reduce, err := crossReduction(c, kindAllreduce, noRoot, send, op, wrong)
	if err != nil {
		return err
	}
	if err = reduce(); err == nil && x.leading() {
		err = x.exchange(0, bytesOf(combined), 0, bytesOf(recv))
	}
	return x.leave(then(err, func() error { return Bcast(x.group(), recv, 0) }))
}

// crossReduceScatter scatters what the other group's ranks combine to. counts has one number for each rank of this
// group.
func crossReduceScatter[T any](c *Comm, k kind, send, recv []T, counts []int, op Op[T]) error {
	var wrong error
	if c.ready() == nil {
		n := c.own().size
		if len(counts) != n {
			wrong = fmt.Errorf("%w: %d counts for %d ranks", ErrCount, len(counts), n)
		} else {
			wrong = first(compare("send", len(send), total(counts)), compare("recv", len(recv), counts[c.rank]), apart(bytesOf(send), bytesOf(recv)))
		}
	}
	x, combined, reduce, err := crossReduction(c, k, noRoot, send, op, wrong)
	if err != nil {
		return err
	}
	theirs := make([]T, len(combined))
	if err = reduce(); err == nil && x.leading() {
		err = x.exchange(0, bytesOf(combined), 0, bytesOf(theirs))
	}
	return x.leave(then(err, func() error { return Scatterv(x.group(), theirs, counts, nil, recv, 0) }))
}
