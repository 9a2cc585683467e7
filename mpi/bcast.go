package mpi

import "github.com/gorun-mpi/gorun/internal/rank/coll"

// Bcast gives all ranks of c the content of root's buf. All pass the same
// length and root. Errors: ErrRank, ErrType, ErrComm, ErrMismatch,
// ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.4)
func Bcast[T any](c *Comm, buf []T, root int) error {
	if c.crosses() {
		return crossBcast(c, buf, root)
	}
	t, err := elem[T]()
	p := bytesOf(buf)
	x, err := c.enter(kindBcast, root, t, len(p), err)
	if err != nil {
		return err
	}
	return x.leave(x.bcast(p))
}

func (x *collective) bcast(p []byte) error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(len(p))
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.bcastShared(p, x.root, rule.Segment)
	case coll.Linear:
		return x.bcastLinear(p)
	case coll.Scatter:
		return x.bcastScatter(p)
	case coll.Chain:
		return x.bcastChain(p, rule.Segment)
	case coll.Levels:
		return x.bcastLevels(p)
	}
	pieces := x.pieces(len(p), rule.Segment)
	for i := range pieces.n { // while a rank passes one piece on, the next one arrives
		if err := x.bcastTree(pieces.of(p, x.t.Size, i)); err != nil {
			return err
		}
	}
	return nil
}

// bcastLinear sends p from the root to each.
func (x *collective) bcastLinear(p []byte) error {
	if x.c.rank != x.root {
		return x.recv(x.root, p)
	}
	for d := 1; d < x.c.size; d++ {
		x.put(x.above(d), p)
	}
	return x.run()
}

// bcastTree sends p down the binomial tree of relative ranks. A rank receives from the one whose number lacks
// its lowest set bit. Then it sends to the ranks whose numbers have one more bit set, below that one.
func (x *collective) bcastTree(p []byte) error {
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
			x.put((v+bit+x.root)%n, p)
		}
	}
	return x.run()
}

// bcastScatter scatters p down the tree. Each rank keeps its block, and then passes blocks round the ring.
// Every link carries about len(p) once or twice, whatever the number of ranks.
func (x *collective) bcastScatter(p []byte) error {
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
			x.put((v+bit+x.root)%n, span(v+bit, min(v+2*bit, n)))
		}
	}
	if err := x.run(); err != nil {
		return err
	}
	return x.ring(p, blocks, x.root)
}

// bcastChain passes p from rank to rank in pieces. A rank receives one piece while it sends the one before.
func (x *collective) bcastChain(p []byte, segment int) error {
	n := x.c.size
	v := (x.c.rank - x.root + n) % n
	from, to := x.below(1), x.above(1)
	pieces := x.pieces(len(p), segment)
	late := 1 // a piece is sent this many pieces after it was received
	if v == 0 {
		late = 0
	}
	for i := 0; i < pieces.n+late; i++ {
		if v != 0 && i < pieces.n {
			x.get(from, pieces.of(p, x.t.Size, i))
		}
		if v != n-1 && i >= late {
			x.put(to, pieces.of(p, x.t.Size, i-late))
		}
		if err := x.run(); err != nil {
			return err
		}
	}
	return nil
}

// pieces cuts a buffer of so many bytes into pieces of about the length of a segment. If segment is 0, there is
// one piece.
func (x *collective) pieces(bytes, segment int) blocks {
	n := 1
	if segment > 0 && bytes > segment {
		n = (bytes + segment - 1) / segment
	}
	return evenly(bytes/x.t.Size, n)
}

// bcastLevels sends p from the root to one rank of each other node, down a tree of nodes. From there p goes to
// the ranks of the node.
func (x *collective) bcastLevels(p []byte) error {
	s, me := x.c.coll.nodes, x.c.rank
	if s == nil {
		return x.bcastLinear(p)
	}
	home, node, n := s.of[x.root], s.of[me], len(s.ranks)
	leader := func(node int) int {
		if node == home {
			return x.root
		}
		return s.ranks[node][0]
	}
	if leader(node) != me {
		return x.hear(p, leader(node))
	}
	v := (node - home + n) % n
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	if v != 0 {
		if err := x.recv(leader(((v&^bit)+home)%n), p); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			x.put(leader((v+bit+home)%n), p)
		}
	}
	return x.handOut(p)
}
