package mpi

import (
	"github.com/gorun-mpi/gorun/internal/coll"
	"github.com/gorun-mpi/gorun/rpi"
)

// Scatter gives rank i the i-th block of root's send: len(send) at the root is
// Size() times len(recv), which is the same everywhere; elsewhere send is not
// looked at (nil will do). Errors: as Gather. (MPI-4.1, chapter 6.6)
func Scatter[T any](c *Comm, send, recv []T, root int) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	if c.Rank() == root {
		err = first(err, compare("send", len(send), c.Size()*len(recv)), apart(sp, rp))
	}
	x, err := c.enter(kindScatter, root, t, len(rp), err)
	if err != nil {
		return err
	}
	b := equal(len(recv), c.size)
	if c.rank == root {
		copy(rp, b.of(sp, t.Size, root))
	}
	return x.leave(x.scatter(sp, rp, b))
}

// ScatterInPlace is Scatter where, at the root, buf is all blocks, of which its
// own stays at its place; elsewhere buf receives the block. Errors: as Gather.
// (MPI-4.1, chapter 6.6)
func ScatterInPlace[T any](c *Comm, buf []T, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	n, k := max(c.Size(), 1), len(buf)
	if c.Rank() == root {
		k /= n
		err = first(err, compare("buf", len(buf), k*n))
	}
	b := equal(k, n)
	rp := p
	if c.Rank() == root && err == nil {
		rp = b.of(p, t.Size, root)
	}
	x, err := c.enter(kindScatter, root, t, len(rp), err)
	if err != nil {
		return err
	}
	return x.leave(x.scatter(p, rp, b))
}

// Scatterv is Scatter of blocks of different lengths: rank i gets counts[i]
// elements, from send[displs[i]:]; with displs nil they follow each other.
// send, counts and displs are looked at by the root alone. Errors: as Gather.
// (MPI-4.1, chapter 6.6)
func Scatterv[T any](c *Comm, send []T, counts, displs []int, recv []T, root int) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	var b blocks
	if c.Rank() == root {
		var berr error
		if b, berr = explicit("send", c.Size(), len(send), counts, displs, tmp); berr == nil {
			berr = compare("recv", len(recv), counts[root])
		}
		err = first(err, berr, apart(sp, rp))
	}
	x, err := c.enter(kindScatterv, root, t, -1, err)
	if err != nil {
		return err
	}
	if c.rank != root {
		return x.leave(x.recv(root, rp))
	}
	copy(rp, b.of(sp, t.Size, root))
	return x.leave(x.sendAll(sp, b))
}

// ScattervInPlace is Scatterv where, at the root, buf is all blocks, of which
// its own stays at its place; elsewhere buf receives the block. Errors: as
// Gather. (MPI-4.1, chapter 6.6)
func ScattervInPlace[T any](c *Comm, buf []T, counts, displs []int, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	var b blocks
	if c.Rank() == root {
		var berr error
		b, berr = explicit("buf", c.Size(), len(buf), counts, displs, tmp)
		err = first(err, berr)
	}
	x, err := c.enter(kindScatterv, root, t, -1, err)
	if err != nil {
		return err
	}
	if c.rank != root {
		return x.leave(x.recv(root, p))
	}
	return x.leave(x.sendAll(p, b))
}

// scatter brings the root's blocks of p to all ranks' mine; the root's own is
// in place.
func (x *collective) scatter(p, mine []byte, b blocks) error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(len(mine))
	switch {
	case err != nil:
		return err
	case rule.Algorithm == coll.Shared:
		return x.scatterShared(p, mine, rule.Segment)
	case rule.Algorithm == coll.Binomial:
		return x.scatterTree(p, mine)
	}
	if x.c.rank != x.root {
		return x.recv(x.root, mine)
	}
	return x.sendAll(p, b)
}

// scatterShared: the root posts what is next for each, and each takes its own.
func (x *collective) scatterShared(p, mine []byte, segment int) error {
	n, me, block := x.c.size, x.c.rank, len(mine)
	return strips(n, block, x.piece(segment), func(off, k int) error {
		turn := rpi.Turn{Need: rpi.FromOne, One: x.root, Want: n * k, Off: me * k, Len: k, Into: mine[off : off+k]}
		if me == x.root {
			turn.Send, turn.SendStride, turn.SendLen = p[off:], block, k
			turn.Into, turn.Len = nil, 0
		}
		return x.take(turn)
	})
}

// scatterTree is gatherTree backwards: a rank that has blocks from its own
// upwards hands the upper half of them to the rank they begin with.
func (x *collective) scatterTree(p, mine []byte) error {
	n, block := x.c.size, len(mine)
	v := (x.c.rank - x.root + n) % n
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	room := min(bit, n-v)
	s := borrow(room * block)
	defer s.giveBack()
	q := s.bytes(room * block)
	if v == 0 {
		copy(q, p[x.root*block:])
		copy(q[(n-x.root)*block:], p[:x.root*block])
	} else if err := x.recv((v-bit+x.root)%n, q); err != nil {
		return err
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			k := min(bit, n-v-bit)
			if err := x.send((v+bit+x.root)%n, q[bit*block:(bit+k)*block]); err != nil {
				return err
			}
		}
	}
	if v != 0 {
		copy(mine, q[:block])
	}
	return nil
}
