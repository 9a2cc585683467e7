package schedule

// Broadcasts: all ranks get the root's k elements, which lie in Out on all ranks. (MPI-4.1, chapter 6.4)

// Bcast sends them down a binomial tree. While a rank passes one piece on, the next one arrives.
func Bcast(s *Schedule, rank, n, root, k int, cut Pieces) {
	pieces := cut.of(k)
	for i := range pieces {
		piece := Span{Out, 0, k}
		if pieces > 1 {
			piece = Evenly(k, pieces).of(Out, i)
		}
		down(s, rank, n, root, func(int, int) Span { return piece })
	}
}

// down sends elements down the binomial tree of relative ranks. A rank receives from the one whose number lacks its
// lowest set bit. Then it sends to the ranks whose numbers have one more bit set, below that one. span tells what is
// for the relative ranks [lo:hi).
func down(s *Schedule, rank, n, root int, span func(lo, hi int) Span) {
	v := rank - root
	if v < 0 {
		v += n
	}
	at := func(v int) int {
		if v += root; v >= n {
			v -= n
		}
		return v
	}
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	s.round()
	if v != 0 {
		s.recv(at(v&^bit), span(v, min(v+bit, n)))
		s.round()
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			s.send(at(v+bit), span(v+bit, min(v+2*bit, n)))
		}
	}
}

// BcastScattered sends each rank a block down the tree. Then every rank sends its block to all others, at once or round
// a ring. Every link carries about k elements once or twice, whatever the number of ranks.
func BcastScattered(s *Schedule, rank, n, root, k int, ring bool) {
	b := Evenly(k, n)
	down(s, rank, n, root, func(lo, hi int) Span {
		from, _ := b(lo)
		_, to := b(hi - 1)
		return Span{Out, from, to - from}
	})
	if ring {
		around(s, rank, n, root, b)
		return
	}
	s.round()
	turned := func(r int) (lo, hi int) { return b((r - root + n) % n) }
	spread(s, rank, n, turned)
}

// BcastLinear sends them from the root to each.
func BcastLinear(s *Schedule, rank, n, root, k int) {
	if rank != root {
		s.recv(root, Span{Out, 0, k})
		return
	}
	scatter(s, rank, n, Out, Whole(k))
}

// BcastChain passes them from rank to rank in pieces. A rank receives one piece while it sends the one before.
func BcastChain(s *Schedule, rank, n, root, k int, cut Pieces) {
	v := (rank - root + n) % n
	from, to := (rank-1+n)%n, (rank+1)%n
	pieces := cut.of(k)
	b := Evenly(k, pieces)
	late := 1 // a piece is sent this many pieces after it was received
	if v == 0 {
		late = 0
	}
	for i := 0; i < pieces+late; i++ {
		s.round()
		if v != 0 && i < pieces {
			s.recv(from, b.of(Out, i))
		}
		if v != n-1 && i >= late {
			s.send(to, b.of(Out, i-late))
		}
	}
}
