package mpi

import "github.com/gorun-mpi/gorun/internal/coll"

// Gather concatenates all ranks' send in root's recv, in the order of ranks:
// len(recv) at the root is Size() times len(send), which is the same
// everywhere; elsewhere recv is not looked at (nil will do). Errors: ErrRank,
// ErrCount, ErrBuffer, ErrType, ErrComm, ErrMismatch, ErrPeerFailed,
// ErrDeadline. (MPI-4.1, chapter 6.5)
func Gather[T any](c *Comm, send, recv []T, root int) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	if c.Rank() == root {
		err = first(err, compare("recv", len(recv), c.Size()*len(send)), apart(sp, rp))
	}
	x, err := c.enter(kindGather, root, t, len(sp), err)
	if err != nil {
		return err
	}
	b := equal(len(send), c.size)
	if c.rank == root {
		copy(b.of(rp, t.Size, root), sp)
	}
	return x.leave(x.gather(sp, rp, b))
}

// GatherInPlace is Gather where, at the root, buf is the whole result with the
// root's contribution at its place; elsewhere it is the contribution. Errors:
// as Gather. (MPI-4.1, chapter 6.5)
func GatherInPlace[T any](c *Comm, buf []T, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	n, k := max(c.Size(), 1), len(buf)
	if c.Rank() == root {
		k /= n
		err = first(err, compare("buf", len(buf), k*n))
	}
	b := equal(k, n)
	sp := p
	if c.Rank() == root && err == nil {
		sp = b.of(p, t.Size, root)
	}
	x, err := c.enter(kindGather, root, t, len(sp), err)
	if err != nil {
		return err
	}
	return x.leave(x.gather(sp, p, b))
}

// Gatherv is Gather of contributions of different lengths: at the root rank i's
// has counts[i] elements and goes to recv[displs[i]:]; with displs nil they
// follow each other. counts, displs and recv are looked at by the root alone.
// Errors: as Gather. (MPI-4.1, chapter 6.5)
func Gatherv[T any](c *Comm, send, recv []T, counts, displs []int, root int) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	var b blocks
	if c.Rank() == root {
		var berr error
		if b, berr = explicit("recv", c.Size(), len(recv), counts, displs, tmp); berr == nil {
			berr = compare("send", len(send), counts[root])
		}
		err = first(err, berr, apart(sp, rp))
	}
	x, err := c.enter(kindGatherv, root, t, -1, err)
	if err != nil {
		return err
	}
	if c.rank != root {
		return x.leave(x.send(root, sp))
	}
	copy(b.of(rp, t.Size, root), sp)
	return x.leave(x.recvAll(rp, b))
}

// GathervInPlace is Gatherv where, at the root, buf is the whole result with
// the root's contribution at its place; elsewhere it is the contribution.
// Errors: as Gather. (MPI-4.1, chapter 6.5)
func GathervInPlace[T any](c *Comm, buf []T, counts, displs []int, root int) error {
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
	x, err := c.enter(kindGatherv, root, t, -1, err)
	if err != nil {
		return err
	}
	if c.rank != root {
		return x.leave(x.send(root, p))
	}
	return x.leave(x.recvAll(p, b))
}

// gather brings all ranks' mine to the root's p, where the root's is in place.
func (x *collective) gather(mine, p []byte, b blocks) error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(len(mine))
	switch {
	case err != nil:
		return err
	case rule.Algorithm == coll.Shared:
		return x.gatherShared(mine, p, x.root, rule.Segment)
	case rule.Algorithm == coll.Binomial:
		return x.gatherTree(mine, p)
	}
	if x.c.rank != x.root {
		return x.send(x.root, mine)
	}
	return x.recvAll(p, b)
}

// gatherTree collects up the binomial tree of relative ranks: a rank that has b
// blocks, from its own upwards, takes the next b from the one b above it.
func (x *collective) gatherTree(mine, p []byte) error {
	n, block := x.c.size, len(mine)
	v := (x.c.rank - x.root + n) % n
	room := n
	if v != 0 {
		room = min(v&-v, n-v)
	}
	s := borrow(room * block)
	defer s.giveBack()
	q := s.bytes(room * block)
	copy(q, mine)
	for bit := 1; bit < n; bit *= 2 {
		if v&bit != 0 {
			return x.send((v-bit+x.root)%n, q)
		}
		if v+bit < n {
			k := min(bit, n-v-bit)
			if err := x.recv((v+bit+x.root)%n, q[bit*block:(bit+k)*block]); err != nil {
				return err
			}
		}
	}
	// The root's blocks start at its own rank: turn them.
	copy(p[x.root*block:], q[:(n-x.root)*block])
	copy(p, q[(n-x.root)*block:])
	return nil
}
