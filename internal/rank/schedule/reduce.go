package schedule

// Reductions to one rank: k elements of all ranks are combined in the root's Out. (MPI-4.1, chapter 6.9.1)

// Reduce sends partial results up the tree of participants. While a rank passes one piece on, the next one arrives.
// inPlace says that this rank's contribution lies in Out, which only the root's may.
func Reduce(s *Schedule, rank, n, root, k int, inPlace bool, cut Pieces) {
	out := Span{Out, 0, 0}
	if rank == root {
		out.Len = k
	}
	o := OrderOf(n)
	v, top := o.Participant(rank), o.Participant(root)
	partner := o.Partner(rank)
	if partner >= 0 && o.Worker(v, root) != rank {
		up(s, partner, Span{In, 0, k}, cut)
		return
	}
	parent := -1
	last := 1 // the bit of the round in which it sends
	for ; last < o.Whole && parent < 0; last *= 2 {
		if (v^top)&last != 0 {
			parent = o.Worker(v^last, root)
			break
		}
	}
	if partner < 0 && last == 1 && parent >= 0 {
		up(s, parent, Span{In, 0, k}, cut)
		return
	}
	all := begin(s, k, out, inPlace && rank == root, false, o.lowers(v, last, partner >= 0))
	pieces := cut.of(k)
	b := Evenly(k, pieces)
	for i := range pieces {
		p := all.part(b(i))
		if partner >= 0 {
			p.take(partner, partner < rank)
		}
		for bit := 1; bit < last; bit *= 2 {
			p.take(o.Worker(v^bit, root), v&bit != 0)
		}
		if parent >= 0 {
			s.send(parent, p.acc)
		} else {
			lo, hi := b(i)
			s.copy(out.Part(lo, hi), p.acc)
		}
	}
}

// up sends a contribution in pieces.
func up(s *Schedule, to int, x Span, cut Pieces) {
	pieces := cut.of(x.Len)
	b := Evenly(x.Len, pieces)
	for i := range pieces {
		s.round()
		s.send(to, x.Part(b(i)))
	}
}

// take receives what another rank has combined, and joins it.
func (p *partial) take(from int, lower bool) {
	p.s.round()
	p.s.recv(from, p.spare())
	p.join(lower)
}

// ReduceCentral makes all ranks send theirs to the root, which does the work.
func ReduceCentral(s *Schedule, rank, n, root, k int) {
	if rank != root {
		s.send(root, Span{In, 0, k})
		return
	}
	s.copy(Span{Out, 0, k}, combined(s, rank, n, k))
}

// combined receives all others' contributions and combines them all. It returns where the result lies.
func combined(s *Schedule, rank, n, k int) Span {
	all := s.room(n * k)
	gather(s, rank, n, all.Mem, Equal(k))
	return foldOf(s, rank, n, all, Span{In, 0, k})
}

// foldOf combines the contributions in all with the rank's own one, which is not there yet. It returns where the result
// lies.
func foldOf(s *Schedule, rank, n int, all, own Span) Span {
	at := func(r int) Span { return all.Part(r*own.Len, (r+1)*own.Len) }
	s.copy(at(rank), own)
	fold(s, n, at)
	return at(0)
}

// ReduceRing combines round a ring. Then each rank sends the root its block. The operator commutes.
func ReduceRing(s *Schedule, rank, n, root, k int) {
	acc := Span{Out, 0, k}
	if rank != root {
		acc = s.room(k)
	}
	s.copy(acc, Span{In, 0, k})
	b := Evenly(k, n)
	ring(s, rank, n, acc, b)
	s.round()
	if rank != root {
		s.send(root, acc.Part(b(rank)))
		return
	}
	gather(s, rank, n, Out, b)
}

// ring leaves the combination of all ranks' block i in rank i's acc. The other blocks of acc are used up. Block i
// starts at the rank above i and goes once round, so its order depends on n alone.
func ring(s *Schedule, rank, n int, acc Span, b Blocks) {
	longest := 0
	for i := range n {
		lo, hi := b(i)
		longest = max(longest, hi-lo)
	}
	came := s.room(longest)
	right, left := (rank+1)%n, (rank-1+n)%n
	for step := 1; step < n; step++ {
		own := acc.Part(b((rank - step - 1 + 2*n) % n))
		in := came.Part(0, own.Len)
		s.round()
		s.recv(left, in)
		s.send(right, acc.Part(b((rank-step+n)%n)))
		s.combine(own, own, in)
	}
}

// ReduceHalving halves until each participant has one share. Then the shares go up a tree to the root.
func ReduceHalving(s *Schedule, rank, n, root, k int, inPlace, commutes bool, cut Pieces) {
	h := halvesOf(rank, n, root, Evenly(k, OrderOf(n).Whole))
	if h.partner >= 0 && h.Worker(h.v, root) != rank {
		s.send(h.partner, Span{In, 0, k})
		return
	}
	out := Span{Out, 0, 0}
	if rank == root {
		out.Len = k
	}
	p := begin(s, k, out, inPlace && rank == root, commutes, h.lowers(h.v, h.Whole, h.partner >= 0))
	h.pairUp(&p)
	h.halve(&p, cut)
	acc := p.acc
	if rank == root {
		acc = out
		s.copy(acc.Part(h.span(h.lo, h.hi)), p.acc.Part(h.span(h.lo, h.hi)))
	}
	top := h.Participant(root)
	for bit := h.Whole / 2; bit > 0; bit /= 2 {
		peer := h.Worker(h.v^bit, root)
		s.round()
		if (h.v^top)&bit != 0 {
			s.send(peer, acc.Part(h.span(h.lo, h.hi)))
			return
		}
		s.recv(peer, acc.Part(h.grow(bit)))
	}
}
