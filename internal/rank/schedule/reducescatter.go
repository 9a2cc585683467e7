package schedule

import "slices"

// Reductions of which each rank gets a block: block i of all ranks' In is combined on rank i, in the beginning of Out.
// (MPI-4.1, chapter 6.10)

// ReduceScatter makes every rank send every other its block, at once.
func ReduceScatter(s *Schedule, rank, n int, b Blocks) {
	mine := shareOf(s, rank, n, b)
	s.copy(Span{Out, 0, mine.Len}, mine)
}

// shareOf exchanges blocks with all others, and combines this rank's. It returns where the result lies.
func shareOf(s *Schedule, rank, n int, b Blocks) Span {
	mine := b.of(In, rank)
	all := s.room(n * mine.Len)
	gather(s, rank, n, all.Mem, Equal(mine.Len))
	scatter(s, rank, n, In, b)
	return foldOf(s, rank, n, all, mine)
}

// ReduceScatterTwo is one exchange between two ranks. inPlace says that Out is In.
func ReduceScatterTwo(s *Schedule, rank int, b Blocks, inPlace, commutes bool, cut Pieces) {
	mine, give := b.of(In, rank), b.of(In, 1-rank)
	out := Span{Out, 0, mine.Len}
	if inPlace {
		out.Len = 0
	}
	p := begin(s, mine.Len, out, false, commutes, 0)
	p.acc = mine
	p.meet(1-rank, rank == 1, 0, mine.Len, give, cut)
	s.copy(Span{Out, 0, mine.Len}, p.acc)
}

// ReduceScatterCentral leaves the work on k elements to rank 0.
func ReduceScatterCentral(s *Schedule, rank, n, k int, b Blocks) {
	if mine := b.of(In, rank); rank != 0 {
		s.recv(0, Span{Out, 0, mine.Len})
		s.send(0, Span{In, 0, k})
		return
	}
	all := combined(s, rank, n, k)
	scatter(s, rank, n, all.Mem, b)
	mine := all.Part(b(rank))
	s.copy(Span{Out, 0, mine.Len}, mine)
}

// ReduceScatterDoubling combines all k elements, and keeps this rank's.
func ReduceScatterDoubling(s *Schedule, rank, n, k int, b Blocks) {
	o := OrderOf(n)
	var all Span
	partner := o.Partner(rank)
	if partner > rank {
		all = s.room(k)
		s.send(partner, Span{In, 0, k})
		s.round()
		s.recv(partner, all)
	} else {
		p := double(s, o, rank, k, Span{}, false)
		if all = p.acc; partner >= 0 {
			s.send(partner, all)
		}
	}
	mine := all.Part(b(rank))
	s.copy(Span{Out, 0, mine.Len}, mine)
}

// ReduceScatterRing combines k elements round a ring. The operator commutes.
func ReduceScatterRing(s *Schedule, rank, n, k int, b Blocks) {
	acc := s.room(k)
	s.copy(acc, Span{In, 0, k})
	ring(s, rank, n, acc, b)
	mine := acc.Part(b(rank))
	s.copy(Span{Out, 0, mine.Len}, mine)
}

// ReduceScatterHalving halves k elements, with the blocks in the order in which the rounds leave them: participant v
// ends with the block whose number is v with its bits reversed.
func ReduceScatterHalving(s *Schedule, rank, n, k int, b Blocks, commutes bool, cut Pieces) {
	o := OrderOf(n)
	turned := s.room(k)
	ends := make([]int, 0, 64)
	if o.Whole > cap(ends) {
		ends = slices.Grow(ends, o.Whole)
	}
	at := 0
	for i := range o.Whole {
		lo, hi := o.blocksOf(b, reversed(i, o.Whole))
		s.copy(turned.Part(at, at+hi-lo), Span{In, lo, hi - lo})
		at += hi - lo
		ends = append(ends, at)
	}
	h := halvesOf(rank, n, noRoot, func(i int) (lo, hi int) {
		if i > 0 {
			lo = ends[i-1]
		}
		return lo, ends[i]
	})
	mine := b.of(Out, rank)
	mine.Off = 0
	if h.partner > rank {
		s.send(h.partner, turned)
		s.round()
		s.recv(h.partner, mine)
		return
	}
	p := partial{s: s, acc: turned, commutes: commutes, free: [2]Span{s.room(k)}}
	h.pairUp(&p)
	h.halve(&p, cut)
	all := p.acc.Part(h.span(h.lo, h.hi))
	if h.partner >= 0 { // the upper rank of a pair: its block is the second of the two
		lo, hi := b(h.partner)
		s.round()
		s.send(h.partner, all.Part(0, hi-lo))
		all = all.Part(hi-lo, all.Len)
	}
	s.copy(mine, all)
}

// blocksOf returns where the blocks of a participant's ranks lie.
func (o Order) blocksOf(b Blocks, v int) (lo, hi int) {
	rank := o.First(v)
	lo, hi = b(rank)
	if o.Partner(rank) >= 0 {
		_, hi = b(rank + 1)
	}
	return lo, hi
}

// reversed returns v with its bits in reverse order. It has as many bits as whole-1.
func reversed(v, whole int) int {
	r := 0
	for bit := 1; bit < whole; bit *= 2 {
		r = r<<1 | v&1
		v >>= 1
	}
	return r
}
