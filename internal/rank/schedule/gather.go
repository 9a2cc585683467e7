package schedule

// Gather and Scatter. (MPI-4.1, chapters 6.5 and 6.6)

// Gather brings the k elements of each rank to the root, which has blocks for them.
func Gather(s *Schedule, rank, n, root, k int, b Blocks) {
	if rank != root {
		s.send(root, Span{In, 0, k})
		return
	}
	gather(s, rank, n, Out, b)
	s.copy(b.of(Out, rank), Span{In, 0, k})
}

// Scatter is Gather backwards.
func Scatter(s *Schedule, rank, n, root, k int, b Blocks) {
	if rank != root {
		s.recv(root, Span{Out, 0, k})
		return
	}
	scatter(s, rank, n, In, b)
	s.copy(Span{Out, 0, k}, b.of(In, rank))
}

// GatherTree is Gather for short blocks of k elements each: they go up the binomial tree of relative ranks. A rank that
// has b blocks, from its own upwards, takes the next b from the rank b above it.
func GatherTree(s *Schedule, rank, n, root, k int) {
	v := (rank - root + n) % n
	size := n
	if v != 0 {
		size = min(v&-v, n-v)
	}
	q := Span{In, 0, k}
	if size > 1 {
		q = s.room(size * k)
		s.copy(q.Part(0, k), Span{In, 0, k})
	}
	for bit := 1; bit < n; bit *= 2 {
		s.round()
		if v&bit != 0 {
			s.send((v-bit+root)%n, q)
			return
		}
		if v+bit < n {
			more := min(bit, n-v-bit)
			s.recv((v+bit+root)%n, q.Part(bit*k, (bit+more)*k))
		}
	}
	rotate(s, q, root, n, k)
}

// rotate copies blocks that begin with that of a rank to Out.
func rotate(s *Schedule, q Span, rank, n, k int) {
	s.copy(Span{Out, rank * k, (n - rank) * k}, q.Part(0, (n-rank)*k))
	s.copy(Span{Out, 0, rank * k}, q.Part((n-rank)*k, n*k))
}

// ScatterTree is GatherTree backwards. A rank has blocks from its own upwards. It passes the upper half of them to the
// rank that they begin with.
func ScatterTree(s *Schedule, rank, n, root, k int) {
	v := (rank - root + n) % n
	bit := 1
	for ; bit < n && v&bit == 0; bit *= 2 {
	}
	size := min(bit, n-v)
	q := Span{Out, 0, k}
	if size > 1 {
		q = s.room(size * k)
	}
	if v == 0 {
		s.copy(q.Part(0, (n-root)*k), Span{In, root * k, (n - root) * k})
		s.copy(q.Part((n-root)*k, n*k), Span{In, 0, root * k})
	} else {
		s.recv((v-bit+root)%n, q)
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			more := min(bit, n-v-bit)
			s.round()
			s.send((v+bit+root)%n, q.Part(bit*k, (bit+more)*k))
		}
	}
	s.copy(Span{Out, 0, k}, q.Part(0, k))
}
