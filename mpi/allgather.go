package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
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
	case coll.Levels:
		return x.allgatherLevels(p, b)
	}
	s, known := x.plan(rule, b.size, false)
	if !known {
		switch n, me := x.c.size, x.c.rank; rule.Algorithm {
		case coll.Central:
			schedule.AllgatherCentral(s, me, n, b.total, b.at)
		case coll.Linear:
			schedule.Allgather(s, me, n, b.at, true)
		case coll.Bruck:
			schedule.AllgatherDoubling(s, me, n, b.size)
		default:
			schedule.AllgatherRing(s, me, n, b.at, true)
		}
	}
	return x.carry(s, b.of(p, x.t.Size, x.c.rank), p)
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
	s := x.draft()
	if rule.Algorithm == coll.Linear {
		schedule.Allgather(s, x.c.rank, x.c.size, b.at, true)
	} else {
		schedule.AllgatherRing(s, x.c.rank, x.c.size, b.at, true)
	}
	return x.carry(s, b.of(p, x.t.Size, x.c.rank), p)
}

// allgatherShared makes everybody read all blocks, or the result that one rank has put together.
func (x *collective) allgatherShared(p []byte, block, segment int) error {
	own := p[x.c.rank*block:][:block]
	once := x.c.size >= gatherersOnce && x.once(block, allgatherOnce)
	return strips(1, block, x.piece(segment), func(off, k int) error {
		return x.take(engine.Turn{Need: engine.Everybody, Once: once, Send: own[off : off+k], Want: k, Len: k, Into: p[off:], Stride: block})
	})
}
