package schedule

// Reduce combines k elements of all ranks at the root. Partial results go up the tree of participants. (MPI-4.1,
// chapter 6.9.1)
func Reduce(rank, n, root, k int, inPlace bool) *Schedule {
	s := &Schedule{}
	own := Span{Out, 0, 0}
	if rank == root {
		own.Len = k
	}
	o := OrderOf(n)
	v, top := o.Participant(rank), o.Participant(root)
	p := s.begin(k, own, inPlace && rank == root)
	take := func(from int) {
		s.round()
		s.recv(from, p.spare())
		p.join(from < rank, 0, k)
	}
	if partner := o.Partner(rank); partner >= 0 {
		if o.Worker(v, root) != rank {
			s.round()
			s.send(partner, p.acc)
			return s
		}
		take(partner)
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		if (v^top)&bit != 0 {
			s.round()
			s.send(o.Worker(v^bit, root), p.acc)
			return s
		}
		take(o.Worker(v^bit, root))
	}
	s.copy(own, p.acc)
	return s
}

// Allreduce combines k elements of all ranks on all. With halves each round halves what two participants have in
// common (Rabenseifner), which moves less of long buffers; otherwise they exchange all. (MPI-4.1, chapter 6.9.6)
func Allreduce(rank, n, k int, inPlace, halves bool) *Schedule {
	s := &Schedule{}
	out := Span{Out, 0, k}
	o := OrderOf(n)
	v, partner := o.Participant(rank), o.Partner(rank)
	p := s.begin(k, out, inPlace)
	switch {
	case partner > rank:
		s.round()
		s.send(partner, p.acc)
		s.round()
		s.recv(partner, out)
		return s
	case partner >= 0:
		s.round()
		s.recv(partner, p.spare())
		p.join(true, 0, k)
	}
	if halves {
		s.halve(p, o, v, k)
	} else {
		for bit := 1; bit < o.Whole; bit *= 2 {
			peer := o.Worker(v^bit, noRoot)
			s.round()
			s.recv(peer, p.spare())
			s.send(peer, p.acc)
			p.join(v&bit != 0, 0, k)
		}
		s.copy(out, p.acc)
	}
	if partner >= 0 {
		s.round()
		s.send(partner, out)
	}
	return s
}

// halve combines until one share is left, then collects the shares on all.
func (s *Schedule) halve(p *partial, o Order, v, k int) {
	share := Evenly(k, o.Whole)
	at := func(i int) int {
		if i == o.Whole {
			return k
		}
		lo, _ := share(i)
		return lo
	}
	lo, hi := 0, o.Whole
	var above [][2]int // the ranges that were split
	for bit := 1; bit < o.Whole; bit *= 2 {
		above = append(above, [2]int{lo, hi})
		mid := (lo + hi) / 2
		keep, give := [2]int{lo, mid}, [2]int{mid, hi}
		if v&bit != 0 {
			keep, give = give, keep
		}
		peer := o.Worker(v^bit, noRoot)
		s.round()
		s.recv(peer, p.spare().Part(at(keep[0]), at(keep[1])))
		s.send(peer, p.acc.Part(at(give[0]), at(give[1])))
		lo, hi = keep[0], keep[1]
		p.join(v&bit != 0, at(lo), at(hi))
	}
	out := Span{Out, 0, k}
	s.copy(out.Part(at(lo), at(hi)), p.acc.Part(at(lo), at(hi)))
	for bit := o.Whole / 2; bit > 0; bit /= 2 {
		all := above[len(above)-1]
		above = above[:len(above)-1]
		other := [2]int{all[0], lo}
		if lo == all[0] {
			other = [2]int{hi, all[1]}
		}
		peer := o.Worker(v^bit, noRoot)
		s.round()
		s.recv(peer, out.Part(at(other[0]), at(other[1])))
		s.send(peer, out.Part(at(lo), at(hi)))
		lo, hi = all[0], all[1]
	}
}

// ReduceScatter combines block i of all ranks' In on rank i, into the beginning of Out. Every rank sends every other
// its block, at once. (MPI-4.1, chapter 6.10)
func ReduceScatter(rank, n int, b Blocks) *Schedule {
	s := &Schedule{}
	mine := b.of(In, rank)
	k := mine.Len
	all := s.room(n * k)
	at := func(r int) Span { return all.Part(r*k, (r+1)*k) }
	s.round()
	for d := 1; d < n; d++ {
		from := (rank - d + n) % n
		s.recv(from, at(from))
	}
	for d := 1; d < n; d++ {
		to := (rank + d) % n
		s.send(to, b.of(In, to))
	}
	s.copy(at(rank), mine)
	s.fold(n, at)
	s.copy(Span{Out, 0, k}, at(0))
	return s
}

// Scan combines k elements of the ranks up to this one. Partial results go up by doubling distances. With exclusive
// the rank itself is left out, and rank 0's Out is left as it is. (MPI-4.1, chapter 6.11)
func Scan(rank, n, k int, exclusive, inPlace bool) *Schedule {
	s := &Schedule{}
	out := Span{Out, 0, k}
	own := out
	if exclusive && !inPlace {
		own.Len = 0 // the result has a place of its own
	}
	p := s.begin(k, own, inPlace)
	var result, low Span // of the ranks below
	if exclusive {
		result, low = s.room(k), s.room(k)
	}
	have := false
	for d := 1; d < n; d *= 2 {
		s.round()
		if rank >= d {
			s.recv(rank-d, p.spare())
		}
		if rank+d < n {
			s.send(rank+d, p.acc)
		}
		if rank < d {
			continue
		}
		switch {
		case !exclusive:
		case !have:
			s.copy(result, p.spare())
			have = true
		default:
			s.copy(low, p.spare())
			s.combine(low, result)
			result, low = low, result
		}
		p.join(true, 0, k)
	}
	switch {
	case !exclusive:
		s.copy(out, p.acc)
	case have:
		s.copy(out, result)
	}
	return s
}
