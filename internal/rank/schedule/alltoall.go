package schedule

// Alltoalls: block j of rank i's In goes to rank j, as its block i of Out. (MPI-4.1, chapter 6.8)

// Window is the number of peers that a rank exchanges with at once in an Alltoall that goes on while the program
// computes. More would leave a large job with as many long messages under way at each rank as it has ranks.
const Window = 64

// Alltoall exchanges with as many others at once as a window has. Buffers do not share memory.
func Alltoall(s *Schedule, rank, n int, in, out Blocks, window int) {
	s.copy(out.of(Out, rank), in.of(In, rank))
	exchange(s, rank, n, window, func(i int) Span { return in.of(In, i) }, out)
}

// AlltoallInPlace is Alltoall where the blocks are the same, and In and Out. What is sent is copied aside first.
func AlltoallInPlace(s *Schedule, rank, n int, b Blocks, window int) {
	total := 0
	for i := range n {
		_, hi := b(i)
		total = max(total, hi)
	}
	aside := s.room(total)
	for i := range n {
		if lo, hi := b(i); i != rank {
			s.copy(aside.Part(lo, hi), Span{In, lo, hi - lo})
		}
	}
	exchange(s, rank, n, window, func(i int) Span { lo, hi := b(i); return aside.Part(lo, hi) }, b)
}

func exchange(s *Schedule, rank, n, window int, in func(i int) Span, out Blocks) {
	for lo := 1; lo < n; lo += window {
		s.round()
		for d := lo; d < min(lo+window, n); d++ {
			peer := (rank - d + n) % n
			s.recv(peer, out.of(Out, peer))
		}
		for d := lo; d < min(lo+window, n); d++ {
			peer := (rank + d) % n
			s.send(peer, in(peer))
		}
	}
}

// AlltoallCentral brings everything to rank 0, which sorts it by destination. Blocks have k elements.
func AlltoallCentral(s *Schedule, rank, n, k int) {
	row := n * k
	if rank != 0 {
		s.recv(0, Span{Out, 0, row})
		s.send(0, Span{In, 0, row})
		return
	}
	in, out := s.room(n*row), s.room(n*row)
	gather(s, rank, n, in.Mem, Equal(row))
	s.copy(in.Part(0, row), Span{In, 0, row})
	for r := range n {
		for to := range n {
			s.copy(out.Part(to*row+r*k, to*row+(r+1)*k), in.Part(r*row+to*k, r*row+(to+1)*k))
		}
	}
	s.copy(Span{Out, 0, row}, out.Part(0, row))
	scatter(s, rank, n, out.Mem, Equal(row))
}

// AlltoallBruck takes ceil(log2 n) rounds. A block of k elements with d ranks to go travels 2^i ranks in round i, if
// bit i of d is set.
func AlltoallBruck(s *Schedule, rank, n, k int) {
	q, packed := s.room(n*k), s.room(n*k) // block d of q is the one with d ranks to go
	block := func(d int) Span { return q.Part(d*k, (d+1)*k) }
	s.copy(q.Part(0, (n-rank)*k), Span{In, rank * k, (n - rank) * k})
	s.copy(q.Part((n-rank)*k, n*k), Span{In, 0, rank * k})
	for bit := 1; bit < n; bit *= 2 {
		m := 0
		for d := bit; d < n; d++ {
			if d&bit != 0 {
				s.copy(packed.Part(m, m+k), block(d))
				m += k
			}
		}
		s.recv((rank-bit+n)%n, Span{Out, 0, m})
		s.send((rank+bit)%n, packed.Part(0, m))
		m = 0
		for d := bit; d < n; d++ {
			if d&bit != 0 {
				s.copy(block(d), Span{Out, m, k})
				m += k
			}
		}
	}
	for d := range n { // the block that had d ranks to go came from the rank d below
		s.copy(Span{Out, (rank - d + n) % n * k, k}, block(d))
	}
}
