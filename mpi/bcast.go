package mpi

// Bcast gives all ranks of c the content of root's buf. All pass the same
// length and root. Errors: ErrRank, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.4)
func Bcast[T any](c *Comm, buf []T, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	x, err := c.enter(kindBcast, root, t, len(p), err)
	if err != nil {
		return err
	}
	return x.leave(x.bcast(p))
}

func (x *collective) bcast(p []byte) error {
	if useScatterAllgather(x.c.size, len(p)) {
		return x.bcastLarge(p)
	}
	return x.binomial(p)
}

// binomial sends p down the binomial tree of relative ranks: a rank hears from
// the one that lacks its lowest set bit, then tells those that it is lowest
// bits short of.
func (x *collective) binomial(p []byte) error {
	n := x.c.size
	v := (x.c.rank - x.root + n) % n
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	if v != 0 {
		if err := x.recv(((v&^bit)+x.root)%n, p); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			if err := x.send((v+bit+x.root)%n, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// bcastLarge scatters p down the tree, each rank keeping its block, and then
// passes the blocks round the ring: every link carries about len(p) once or
// twice, whatever the number of ranks.
func (x *collective) bcastLarge(p []byte) error {
	n := x.c.size
	v := (x.c.rank - x.root + n) % n
	blocks := evenly(len(p)/x.t.Size, n)
	span := func(lo, hi int) []byte { return blocks.span(p, x.t.Size, lo, hi) }
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	if v != 0 {
		if err := x.recv(((v&^bit)+x.root)%n, span(v, min(v+bit, n))); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			if err := x.send((v+bit+x.root)%n, span(v+bit, min(v+2*bit, n))); err != nil {
				return err
			}
		}
	}
	return x.ring(p, blocks, x.root)
}
