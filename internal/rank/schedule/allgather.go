package schedule

// Allgathers: all ranks' In goes to all, into blocks of Out. (MPI-4.1, chapter 6.7)

// Allgather sends each block from its rank to all others. inPlace says that the rank's own is in Out.
func Allgather(s *Schedule, rank, n int, b Blocks, inPlace bool) {
	if own := b.of(Out, rank); !inPlace {
		s.copy(own, Span{In, 0, own.Len})
	}
	spread(s, rank, n, b)
}

// spread sends the rank's block of Out to all others and receives theirs.
func spread(s *Schedule, rank, n int, b Blocks) {
	lo, hi := b(rank)
	gather(s, rank, n, Out, b)
	scatter(s, rank, n, Out, func(int) (int, int) { return lo, hi })
}

// AllgatherDoubling is Allgather for short blocks of k elements: in each round a rank passes on all that it has, so
// there are log n messages instead of n (Bruck).
func AllgatherDoubling(s *Schedule, rank, n, k int) {
	all := s.room(n * k) // of this rank and those above, in that order
	s.copy(all.Part(0, k), Span{In, 0, k})
	for d := 1; d < n; d *= 2 {
		more := min(d, n-d)
		s.round()
		s.recv((rank+d)%n, all.Part(d*k, (d+more)*k))
		s.send((rank-d+n)%n, all.Part(0, more*k))
	}
	rotate(s, all, rank, n, k)
}

// AllgatherRing is Allgather where blocks go from neighbour to neighbour.
func AllgatherRing(s *Schedule, rank, n int, b Blocks, inPlace bool) {
	if own := b.of(Out, rank); !inPlace {
		s.copy(own, Span{In, 0, own.Len})
	}
	around(s, rank, n, 0, b)
}

// around passes blocks of Out round. In each round a rank passes to its right the block that last came from its left.
// Block i belongs to the rank i above shift.
func around(s *Schedule, rank, n, shift int, b Blocks) {
	right, left := (rank+1)%n, (rank-1+n)%n
	v := (rank - shift + n) % n
	for i := range n - 1 {
		s.round()
		s.recv(left, b.of(Out, (v-i-1+n)%n))
		s.send(right, b.of(Out, (v-i+n)%n))
	}
}

// AllgatherCentral sends all blocks to rank 0, which sends all of total elements to everybody.
func AllgatherCentral(s *Schedule, rank, n, total int, b Blocks) {
	own := b.of(Out, rank)
	if rank != 0 {
		s.recv(0, Span{Out, 0, total})
		s.send(0, Span{In, 0, own.Len})
		return
	}
	gather(s, rank, n, Out, b)
	s.copy(own, Span{In, 0, own.Len})
	scatter(s, rank, n, Out, Whole(total))
}
