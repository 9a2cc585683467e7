package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Allgather gives every rank the concatenation of all ranks' send, in the order of ranks. len(recv) is Size()
// times len(send), which is the same everywhere. Errors: ErrCount, ErrBuffer, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.7)
func Allgather[T any](c *Comm, send, recv []T) error {
	if c.crosses() {
		return crossAllgather(c, kindAllgather, send, recv, nil, nil, false)
	}
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	x, err := c.enter(kindAllgather, noRoot, t, len(sp), first(err, compare("recv", len(recv), c.Size()*len(send)), apart(sp, rp)))
	if err != nil {
		return err
	}
	b := equal(len(send), c.size)
	copy(b.of(rp, t.Size, c.rank), sp)
	return x.leave(x.allgather(rp, b))
}

// AllgatherInPlace is Allgather where each rank's contribution already lies at its place in buf: elements
// Rank()*k to (Rank()+1)*k, where k = len(buf)/Size(). Errors: as Allgather. (MPI-4.1, chapter 6.7)
func AllgatherInPlace[T any](c *Comm, buf []T) error {
	t, err := elem[T]()
	n := max(c.Size(), 1)
	k := len(buf) / n
	p := bytesOf(buf)
	x, err := c.enter(kindAllgather, noRoot, t, len(p)/n, first(err, compare("buf", len(buf), k*n)))
	if err != nil {
		return err
	}
	return x.leave(x.allgather(p, equal(k, n)))
}

// Allgatherv is Allgather of contributions of different lengths. Rank i's has counts[i] elements and goes to
// recv[displs[i]:]. If displs is nil, they follow each other. counts is the same on all ranks. Errors: as
// Allgather. (MPI-4.1, chapter 6.7)
func Allgatherv[T any](c *Comm, send, recv []T, counts, displs []int) error {
	if c.crosses() {
		return crossAllgather(c, kindAllgatherv, send, recv, counts, displs, true)
	}
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, berr := explicit("recv", c.Size(), len(recv), counts, displs, tmp)
	if berr == nil && c.ready() == nil {
		berr = compare("send", len(send), counts[c.rank])
	}
	x, err := c.enter(kindAllgatherv, noRoot, t, -1, first(err, berr, apart(sp, rp)))
	if err != nil {
		return err
	}
	copy(b.of(rp, t.Size, c.rank), sp)
	return x.leave(x.allgatherv(rp, b))
}

// AllgathervInPlace is Allgatherv where each rank's contribution already lies at its place in buf. Errors: as
// Allgather. (MPI-4.1, chapter 6.7)
func AllgathervInPlace[T any](c *Comm, buf []T, counts, displs []int) error {
	t, err := elem[T]()
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, berr := explicit("buf", c.Size(), len(buf), counts, displs, tmp)
	x, err := c.enter(kindAllgatherv, noRoot, t, -1, first(err, berr))
	if err != nil {
		return err
	}
	return x.leave(x.allgatherv(bytesOf(buf), b))
}

// allgather fills p, where this rank's block is in place already.
func (x *collective) allgather(p []byte, b blocks) error {
	if x.c.size == 1 {
		return nil
	}
	block := b.size * x.t.Size
	rule, err := x.choose(block)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.allgatherShared(p, block, rule.Segment)
	case coll.Central:
		return x.allgatherCentral(p, b)
	case coll.Linear:
		return x.allgatherLinear(p, b)
	case coll.Bruck:
		return x.allgatherBruck(p, block)
	case coll.Levels:
		return x.allgatherLevels(p, b)
	}
	return x.ring(p, b, 0)
}

// allgatherv is allgather with blocks of any length.
func (x *collective) allgatherv(p []byte, b blocks) error {
	if x.c.size == 1 {
		return nil
	}
	total := 0
	for _, k := range b.counts {
		total += k
	}
	rule, err := x.choose(total * x.t.Size)
	if err != nil {
		return err
	}
	if rule.Algorithm == coll.Linear {
		return x.allgatherLinear(p, b)
	}
	return x.ring(p, b, 0)
}

// allgatherCentral sends all blocks to rank 0, which sends the result to everybody.
func (x *collective) allgatherCentral(p []byte, b blocks) error {
	if x.c.rank != 0 {
		return x.exchange(0, b.of(p, x.t.Size, x.c.rank), 0, p)
	}
	if err := x.recvAll(p, b); err != nil {
		return err
	}
	for r := 1; r < x.c.size; r++ {
		x.put(r, p)
	}
	return x.run()
}

// allgatherLinear sends this rank's block to every other.
func (x *collective) allgatherLinear(p []byte, b blocks) error {
	own := b.of(p, x.t.Size, x.c.rank)
	x.getAll(p, &b)
	for d := 1; d < x.c.size; d++ {
		x.put(x.above(d), own)
	}
	return x.run()
}

// allgatherShared makes everybody read all blocks, or the result that one rank has put together.
func (x *collective) allgatherShared(p []byte, block, segment int) error {
	own := p[x.c.rank*block:][:block]
	once := x.c.size >= gatherersOnce && x.once(block, allgatherOnce)
	return strips(1, block, x.piece(segment), func(off, k int) error {
		return x.take(engine.Turn{Need: engine.Everybody, Once: once, Send: own[off : off+k], Want: k, Len: k, Into: p[off:], Stride: block})
	})
}

// ring passes blocks round. In each step a rank passes to its right the block that last came from its left.
// Block i belongs to the rank i above shift.
func (x *collective) ring(p []byte, b blocks, shift int) error {
	n, size := x.c.size, x.t.Size
	right, left := (x.c.rank+1)%n, (x.c.rank-1+n)%n
	v := (x.c.rank - shift + n) % n
	for step := range n - 1 {
		out, in := (v-step+n)%n, (v-step-1+n)%n
		if err := x.exchange(right, b.of(p, size, out), left, b.of(p, size, in)); err != nil {
			return err
		}
	}
	return nil
}

// allgatherBruck collects blocks in order from this rank's own upwards. Each round doubles what the rank has.
// At the end it rotates the result.
func (x *collective) allgatherBruck(p []byte, block int) error {
	n, me := x.c.size, x.c.rank
	s := borrow(len(p))
	defer s.giveBack()
	q := s.bytes(len(p))
	copy(q, p[me*block:(me+1)*block])
	for have := 1; have < n; have *= 2 {
		k := min(have, n-have) * block
		if err := x.exchange((me-have+n)%n, q[:k], (me+have)%n, q[have*block:have*block+k]); err != nil {
			return err
		}
	}
	copy(p[me*block:], q[:(n-me)*block])
	copy(p[:me*block], q[(n-me)*block:])
	return nil
}
