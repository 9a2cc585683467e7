package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
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
	block := b.size * x.t.Size
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.alltoallShared(sp, rp, block, rule.Segment)
	case coll.Central:
		return x.alltoallCentral(sp, rp, block)
	case coll.Linear:
		return x.alltoallLinear(sp, &b, rp, &b)
	case coll.Bruck:
		return x.alltoallBruck(sp, rp, block)
	}
	return x.pairwise(sp, &b, rp, &b)
}

func (x *collective) alltoallv(sp []byte, sb blocks, rp []byte, rb blocks) error {
	if x.c.size > 1 {
		rule, err := x.choose(0)
		if err != nil {
			return err
		}
		if rule.Algorithm == coll.Linear {
			return x.alltoallLinear(sp, &sb, rp, &rb)
		}
	}
	return x.pairwise(sp, &sb, rp, &rb)
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

// alltoallLinear exchanges with all others at once.
func (x *collective) alltoallLinear(sp []byte, sb *blocks, rp []byte, rb *blocks) error {
	me, size := x.c.rank, x.t.Size
	copy(rb.of(rp, size, me), sb.of(sp, size, me))
	return x.spread(sp, sb, rp, rb)
}

// alltoallCentral brings everything to rank 0, which sorts it by destination.
func (x *collective) alltoallCentral(sp, rp []byte, block int) error {
	n := x.c.size
	if x.c.rank != 0 {
		return x.exchange(0, sp, 0, rp)
	}
	row := n * block
	s := borrow(2 * n * row)
	defer s.giveBack()
	in, out := s.bytes(n*row), s.bytes(2 * n * row)[n*row:]
	for r := 1; r < n; r++ {
		x.get(r, in[r*row:(r+1)*row])
	}
	if err := x.run(); err != nil {
		return err
	}
	copy(in, sp)
	for r := range n {
		for to := range n {
			copy(out[to*row+r*block:][:block], in[r*row+to*block:])
		}
	}
	for r := 1; r < n; r++ {
		x.put(r, out[r*row:(r+1)*row])
	}
	copy(rp, out[:row])
	return x.run()
}

// pairwise exchanges in n-1 rounds. In round d the partners are the ranks d above and d below.
func (x *collective) pairwise(sp []byte, sb *blocks, rp []byte, rb *blocks) error {
	me, size := x.c.rank, x.t.Size
	copy(rb.of(rp, size, me), sb.of(sp, size, me))
	for d := 1; d < x.c.size; d++ {
		dst, src := x.above(d), x.below(d)
		if err := x.exchange(dst, sb.of(sp, size, dst), src, rb.of(rp, size, src)); err != nil {
			return err
		}
	}
	return nil
}

// alltoallBruck takes ceil(log2 n) rounds. A block with d ranks to go travels 2^k ranks in round k, if bit k of
// d is set.
func (x *collective) alltoallBruck(sp, rp []byte, block int) error {
	n, me := x.c.size, x.c.rank
	work := borrow(len(sp))
	defer work.giveBack()
	out := borrow(len(sp))
	defer out.giveBack()
	q := work.bytes(len(sp)) // block d is the one with d ranks to go
	copy(q, sp[me*block:])
	copy(q[(n-me)*block:], sp[:me*block])
	for bit := 1; bit < n; bit *= 2 {
		packed := out.bytes(len(sp))[:0]
		for d := bit; d < n; d++ {
			if d&bit != 0 {
				packed = append(packed, q[d*block:(d+1)*block]...)
			}
		}
		in := rp[:len(packed)]
		if err := x.exchange((me+bit)%n, packed, (me-bit+n)%n, in); err != nil {
			return err
		}
		for d := bit; d < n; d++ {
			if d&bit != 0 {
				copy(q[d*block:(d+1)*block], in)
				in = in[block:]
			}
		}
	}
	for d := range n { // the block that had d ranks to go came from the rank d below
		src := (me - d + n) % n
		copy(rp[src*block:(src+1)*block], q[d*block:(d+1)*block])
	}
	return nil
}
