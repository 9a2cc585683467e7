package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Alltoall sends block j of every rank's send to rank j. There block i of recv is the one from rank i. Both
// buffers hold Size() blocks of one length, the same everywhere. Errors: as Allgather. (MPI-4.1, chapter 6.8)
func Alltoall[T any](c *Comm, send, recv []T) error {
	if c.crosses() {
		return crossAlltoall(c, kindAlltoall, send, nil, nil, recv, nil, nil, false)
	}
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	n := max(c.Size(), 1)
	k := len(send) / n
	x, err := c.enter(kindAlltoall, noRoot, t, len(sp), first(err, compare("send", len(send), k*n), compare("recv", len(recv), len(send)), apart(sp, rp)))
	if err != nil {
		return err
	}
	return x.leave(x.alltoall(sp, rp, equal(k, n)))
}

// AlltoallInPlace is Alltoall where buf holds what is sent before and what was
// received after. Errors: as Allgather. (MPI-4.1, chapter 6.8)
func AlltoallInPlace[T any](c *Comm, buf []T) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	n := max(c.Size(), 1)
	k := len(buf) / n
	x, err := c.enter(kindAlltoall, noRoot, t, len(p), first(err, compare("buf", len(buf), k*n)))
	if err != nil {
		return err
	}
	s := borrow(len(p))
	defer s.giveBack()
	sp := s.bytes(len(p))
	copy(sp, p)
	return x.leave(x.alltoall(sp, p, equal(k, n)))
}

// Alltoallv is Alltoall with blocks of any length. scounts[j] elements from send[sdispls[j]:] go to rank j, and
// rcounts[i] elements of rank i go to recv[rdispls[i]:]. If displacements are nil, the blocks follow each
// other. A rank must send what the receiver expects. Errors: as Allgather. (MPI-4.1, chapter 6.8)
func Alltoallv[T any](c *Comm, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) error {
	if c.crosses() {
		return crossAlltoall(c, kindAlltoallv, send, scounts, sdispls, recv, rcounts, rdispls, true)
	}
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	n := c.Size()
	tmp, s := borrowSlice[int](2 * n)
	defer s.giveBack()
	sb, serr := explicit("send", n, len(send), scounts, sdispls, tmp[:n])
	rb, rerr := explicit("recv", n, len(recv), rcounts, rdispls, tmp[n:])
	err = first(err, serr, rerr, apart(sp, rp))
	if err == nil && c.ready() == nil && scounts[c.rank] != rcounts[c.rank] {
		err = fmt.Errorf("%w: %d elements to itself, %d from itself", ErrCount, scounts[c.rank], rcounts[c.rank])
	}
	x, err := c.enter(kindAlltoallv, noRoot, t, -1, err)
	if err != nil {
		return err
	}
	return x.leave(x.alltoallv(sp, sb, rp, rb))
}

// AlltoallvInPlace is Alltoallv where buf holds what is sent before and what was received after. A rank sends
// each rank as much as it receives from it. Errors: as Allgather. (MPI-4.1, chapter 6.8)
func AlltoallvInPlace[T any](c *Comm, buf []T, counts, displs []int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, berr := explicit("buf", c.Size(), len(buf), counts, displs, tmp)
	x, err := c.enter(kindAlltoallv, noRoot, t, -1, first(err, berr))
	if err != nil {
		return err
	}
	copied := borrow(len(p))
	defer copied.giveBack()
	sp := copied.bytes(len(p))
	copy(sp, p)
	return x.leave(x.alltoallv(sp, b, p, b))
}

func (x *collective) alltoall(sp, rp []byte, b blocks) error {
	if x.c.size == 1 {
		copy(rp, sp)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	if rule.Algorithm == coll.Shared {
		return x.alltoallShared(sp, rp, b.size*x.t.Size, rule.Segment)
	}
	s, known := x.plan(rule, b.size, false)
	if !known {
		switch n, me := x.c.size, x.c.rank; rule.Algorithm {
		case coll.Central:
			schedule.AlltoallCentral(s, me, n, b.size)
		case coll.Linear:
			schedule.Alltoall(s, me, n, b.at, b.at, n)
		case coll.Bruck:
			schedule.AlltoallBruck(s, me, n, b.size)
		default:
			schedule.Alltoall(s, me, n, b.at, b.at, 1)
		}
	}
	return x.carry(s, sp, rp)
}

func (x *collective) alltoallv(sp []byte, sb blocks, rp []byte, rb blocks) error {
	window := 1
	if x.c.size > 1 {
		rule, err := x.choose(0)
		if err != nil {
			return err
		}
		if rule.Algorithm == coll.Linear {
			window = x.c.size
		}
	}
	s := x.draft()
	schedule.Alltoall(s, x.c.rank, x.c.size, sb.at, rb.at, window)
	return x.carry(s, sp, rp)
}

// alltoallShared cuts the blocks into strips. In each turn a rank posts the strip for everybody, and takes its
// own strips from all.
func (x *collective) alltoallShared(sp, rp []byte, block, segment int) error {
	n, me := x.c.size, x.c.rank
	return strips(n, block, x.piece(segment), func(off, k int) error {
		return x.take(engine.Turn{Need: engine.Everybody, Send: sp[off:], SendStride: block, SendLen: k,
			Want: n * k, Off: me * k, Len: k, Own: true, Into: rp[off:], Stride: block})
	})
}
