package schedule

// Barrier is n ranks telling each other that they are there, at doubling distances (Hensgen, Finkel and Manber).
// (MPI-4.1, chapter 6.3)
func Barrier(rank, n int) *Schedule {
	s := &Schedule{}
	for d := 1; d < n; d *= 2 {
		s.round()
		s.recv((rank-d+n)%n, Span{})
		s.send((rank+d)%n, Span{})
	}
	return s
}

// Bcast gives all ranks the root's k elements. They lie in Out on all ranks. They go down a binomial tree. With
// blocks each rank gets only its block that way, and then sends it to all: every link carries about k elements.
// (MPI-4.1, chapter 6.4)
func Bcast(rank, n, root, k int, blocks bool) *Schedule {
	s := &Schedule{}
	v := (rank - root + n) % n
	b := Evenly(k, n)
	span := func(lo, hi int) Span {
		if !blocks {
			return Span{Out, 0, k}
		}
		from, _ := b(lo)
		_, to := b(hi - 1)
		return Span{Out, from, to - from}
	}
	at := func(v int) int { return (v + root) % n }
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	if v != 0 {
		s.round()
		s.recv(at(v&^bit), span(v, min(v+bit, n)))
	}
	s.round()
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			s.send(at(v+bit), span(v+bit, min(v+2*bit, n)))
		}
	}
	if blocks {
		s.spread(func(r int) Span { w := (r - root + n) % n; return span(w, w+1) }, rank, n)
	}
	return s
}

// spread sends the rank's block to all others and receives theirs.
func (s *Schedule) spread(of func(rank int) Span, rank, n int) {
	s.round()
	for d := 1; d < n; d++ {
		from := (rank - d + n) % n
		s.recv(from, of(from))
	}
	for d := 1; d < n; d++ {
		s.send((rank+d)%n, of(rank))
	}
}

// Gather brings the k elements of each rank to the root, which has blocks for them. (MPI-4.1, chapter 6.5)
func Gather(rank, n, root, k int, b Blocks) *Schedule {
	s := &Schedule{}
	s.round()
	if rank != root {
		s.send(root, Span{In, 0, k})
		return s
	}
	for d := 1; d < n; d++ {
		from := (rank + d) % n
		s.recv(from, b.of(Out, from))
	}
	s.copy(b.of(Out, rank), Span{In, 0, k})
	return s
}

// Scatter is Gather backwards. (MPI-4.1, chapter 6.6)
func Scatter(rank, n, root, k int, b Blocks) *Schedule {
	s := &Schedule{}
	s.round()
	if rank != root {
		s.recv(root, Span{Out, 0, k})
		return s
	}
	for d := 1; d < n; d++ {
		to := (rank + d) % n
		s.send(to, b.of(In, to))
	}
	s.copy(Span{Out, 0, k}, b.of(In, rank))
	return s
}

// Allgather gives all ranks' In to all, in blocks of Out. (MPI-4.1, chapter 6.7)
func Allgather(rank, n int, b Blocks) *Schedule {
	s := &Schedule{}
	own := b.of(Out, rank)
	s.copy(own, Span{In, 0, own.Len})
	s.spread(func(r int) Span { return b.of(Out, r) }, rank, n)
	return s
}

// AllgatherDoubling is Allgather for short blocks of k elements: in each round a rank passes on all that it has, so
// there are log n messages instead of n (Bruck).
func AllgatherDoubling(rank, n, k int) *Schedule {
	s := &Schedule{}
	all := s.room(n * k) // of this rank and those above, in that order
	s.copy(all.Part(0, k), Span{In, 0, k})
	for d := 1; d < n; d *= 2 {
		more := min(d, n-d)
		s.round()
		s.recv((rank+d)%n, all.Part(d*k, (d+more)*k))
		s.send((rank-d+n)%n, all.Part(0, more*k))
	}
	s.copy(Span{Out, rank * k, (n - rank) * k}, all.Part(0, (n-rank)*k))
	s.copy(Span{Out, 0, rank * k}, all.Part((n-rank)*k, n*k))
	return s
}

// window is the number of peers that a rank exchanges with at once in Alltoall. More would leave a large job with
// as many long messages under way at each rank as it has ranks.
const window = 64

// Alltoall gives block j of rank i's In to rank j, as its block i of Out. In place the blocks of both are the same,
// and what is sent is copied aside first. (MPI-4.1, chapter 6.8)
func Alltoall(rank, n int, in, out Blocks, inPlace bool) *Schedule {
	s := &Schedule{}
	from := func(i int) Span { return in.of(In, i) }
	if inPlace {
		aside := make([]Span, n)
		for i := range n {
			if i != rank {
				aside[i] = s.room(from(i).Len)
				s.copy(aside[i], from(i))
			}
		}
		from = func(i int) Span { return aside[i] }
	} else {
		s.copy(out.of(Out, rank), from(rank))
	}
	for lo := 1; lo < n; lo += window {
		s.round()
		for d := lo; d < min(lo+window, n); d++ {
			peer := (rank - d + n) % n
			s.recv(peer, out.of(Out, peer))
		}
		for d := lo; d < min(lo+window, n); d++ {
			peer := (rank + d) % n
			s.send(peer, from(peer))
		}
	}
	return s
}

// Neighbors sends block j of In to dests[j] and receives block i of Out from sources[i]. A number below 0 is no rank. Of several
// messages to one rank those that are earlier in order are sent first; nil is the order of dests. What a rank sends to itself is
// copied: the first such block to the first such source. It has as many of each, of equal lengths. (MPI-4.1, chapter 8.6)
func Neighbors(rank int, sources, dests, order []int, in, out Blocks) *Schedule {
	s := &Schedule{}
	var own []Span
	for i, peer := range sources {
		switch to := out.of(Out, i); {
		case peer == rank:
			own = append(own, to)
		case peer >= 0:
			s.recv(peer, to)
		}
	}
	for i := range dests {
		if order != nil {
			i = order[i]
		}
		switch from := in.of(In, i); {
		case dests[i] == rank:
			s.copy(own[0], from)
			own = own[1:]
		case dests[i] >= 0:
			s.send(dests[i], from)
		}
	}
	return s
}
