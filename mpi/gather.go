package mpi

import "github.com/gorun-mpi/gorun/internal/rank/coll"

// Gather concatenates all ranks' send in root's recv, in the order of ranks. At the root len(recv) is Size()
// times len(send), which is the same everywhere. Elsewhere recv is ignored and may be nil. Errors: ErrRank,
// ErrCount, ErrBuffer, ErrType, ErrComm, ErrMismatch, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.5)
func Gather[T any](c *Comm, send, recv []T, root int) error {
	return portions(c, kindGather, send, recv, root)
}

// GatherInPlace is Gather where the root's buf is the whole result, with the root's contribution at its place.
// Elsewhere buf is the contribution. Errors: as Gather. (MPI-4.1, chapter 6.5)
func GatherInPlace[T any](c *Comm, buf []T, root int) error {
	return portionsInPlace(c, kindGather, buf, root)
}

// Gatherv is Gather of contributions of different lengths. At the root, rank i's has counts[i] elements and
// goes to recv[displs[i]:]. If displs is nil, they follow each other. Only the root reads counts, displs and
// recv. Errors: as Gather. (MPI-4.1, chapter 6.5)
func Gatherv[T any](c *Comm, send, recv []T, counts, displs []int, root int) error {
	return portionsv(c, kindGatherv, send, recv, counts, displs, root)
}

// GathervInPlace is Gatherv where the root's buf is the whole result, with the root's contribution at its
// place. Elsewhere buf is the contribution. Errors: as Gather. (MPI-4.1, chapter 6.5)
func GathervInPlace[T any](c *Comm, buf []T, counts, displs []int, root int) error {
	return portionsvInPlace(c, kindGatherv, buf, counts, displs, root)
}

// gather copies all ranks' mine to the root's p. The root's own block is in place.
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

// gatherTree collects blocks up the binomial tree of relative ranks. A rank that has b blocks, from its own
// upwards, takes the next b from the rank b above it.
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
	// The root's blocks start at its own rank: rotate them.
	copy(p[x.root*block:], q[:(n-x.root)*block])
	copy(p, q[(n-x.root)*block:])
	return nil
}
