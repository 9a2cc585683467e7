package schedule

// Reductions to all ranks: k elements of all are combined in everybody's Out. (MPI-4.1, chapter 6.9.6)

// Allreduce makes pairs of participants exchange all, at doubling distances, and combine it, both sides alike. Where
// two ranks are one participant, the lower gives its contribution to the upper and gets the result at the end.
func Allreduce(s *Schedule, rank, n, k int, inPlace bool) {
	o := OrderOf(n)
	out := Span{Out, 0, k}
	partner := o.Partner(rank)
	if partner > rank {
		s.send(partner, Span{In, 0, k})
		s.round()
		s.recv(partner, out)
		return
	}
	p := double(s, o, rank, k, out, inPlace)
	s.copy(out, p.acc)
	if partner >= 0 {
		s.round()
		s.send(partner, out)
	}
}

// double is the part of a rank that acts for a participant.
func double(s *Schedule, o Order, rank, k int, out Span, inPlace bool) partial {
	v, partner := o.Participant(rank), o.Partner(rank)
	p := begin(s, k, out, inPlace, false, o.lowers(v, o.Whole, partner >= 0))
	if partner >= 0 {
		p.take(partner, true)
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		peer := o.Worker(v^bit, noRoot)
		s.round()
		s.recv(peer, p.spare())
		s.send(peer, p.acc)
		p.join(v&bit != 0)
	}
	return p
}

// AllreduceHalving halves in each round what two participants have in common (Rabenseifner), which moves less of long
// buffers. Then it goes back, and every rank gets all shares.
func AllreduceHalving(s *Schedule, rank, n, k int, inPlace, commutes bool, cut Pieces) {
	out := Span{Out, 0, k}
	h := halvesOf(rank, n, noRoot, Evenly(k, OrderOf(n).Whole))
	if h.partner > rank {
		s.send(h.partner, Span{In, 0, k})
		s.round()
		s.recv(h.partner, out)
		return
	}
	p := begin(s, k, out, inPlace, commutes, h.lowers(h.v, h.Whole, h.partner >= 0))
	h.pairUp(&p)
	h.halve(&p, cut)
	s.copy(out.Part(h.span(h.lo, h.hi)), p.acc.Part(h.span(h.lo, h.hi)))
	for bit := h.Whole / 2; bit > 0; bit /= 2 {
		peer, own := h.Worker(h.v^bit, noRoot), out.Part(h.span(h.lo, h.hi))
		s.round()
		s.recv(peer, out.Part(h.grow(bit)))
		s.send(peer, own)
	}
	if h.partner >= 0 {
		s.round()
		s.send(h.partner, out)
	}
}

// AllreduceTree reduces to rank 0, which broadcasts the result.
func AllreduceTree(s *Schedule, rank, n, k int, inPlace bool) {
	Reduce(s, rank, n, 0, k, inPlace, Pieces{})
	s.round()
	Bcast(s, rank, n, 0, k, Pieces{})
}

// AllreduceCentral leaves the work to rank 0.
func AllreduceCentral(s *Schedule, rank, n, k int) {
	if rank != 0 {
		s.recv(0, Span{Out, 0, k})
		s.send(0, Span{In, 0, k})
		return
	}
	s.copy(Span{Out, 0, k}, combined(s, rank, n, k))
	scatter(s, rank, n, Out, Whole(k))
}

// AllreduceLinear gives everybody's contribution to everybody.
func AllreduceLinear(s *Schedule, rank, n, k int) {
	all := s.room(n * k)
	gather(s, rank, n, all.Mem, Equal(k))
	scatter(s, rank, n, In, Whole(k))
	s.copy(Span{Out, 0, k}, foldOf(s, rank, n, all, Span{In, 0, k}))
}

// AllreducePairwise is a ReduceScatter in which every rank sends every other its share, then an Allgather.
func AllreducePairwise(s *Schedule, rank, n, k int) {
	b := Evenly(k, n)
	s.copy(b.of(Out, rank), shareOf(s, rank, n, b))
	s.round()
	spread(s, rank, n, b)
}

// AllreduceRing combines round a ring, and passes the results round. The operator commutes.
func AllreduceRing(s *Schedule, rank, n, k int) {
	out, b := Span{Out, 0, k}, Evenly(k, n)
	s.copy(out, Span{In, 0, k})
	ring(s, rank, n, out, b)
	around(s, rank, n, 0, b)
}
