package schedule

// Scans: k elements of the ranks up to this one are combined. With exclusive the rank itself is left out, and rank 0's
// Out is left as it is. (MPI-4.1, chapter 6.11)

// Scan passes partial results up by doubling distances. After the round of distance d a rank has the combination of
// itself and the 2d-1 ranks below it.
func Scan(s *Schedule, rank, n, k int, exclusive, inPlace bool) {
	out := Span{Out, 0, k}
	lowers := 0 // a rank hears from one at each distance that is not above its number
	for d := 1; d < n && d <= rank; d *= 2 {
		lowers++
	}
	own := out
	if exclusive && !inPlace {
		own.Len = 0 // the result has a place of its own
	}
	p := begin(s, k, own, inPlace, false, max(lowers-1, 0))
	var result, low Span // of the ranks below
	if exclusive {
		result, low = s.room(k), s.room(k)
	}
	for d := 1; d < n; d *= 2 {
		s.round()
		if rank >= d {
			s.recv(rank-d, p.spare())
		}
		if rank+d < n {
			s.send(rank+d, p.acc)
		}
		switch {
		case rank < d:
			continue
		case exclusive && d == 1:
			s.copy(result, p.spare())
		case exclusive:
			s.copy(low, p.spare())
			s.combine(low, low, result)
			result, low = low, result
		}
		p.join(true)
	}
	switch {
	case !exclusive:
		s.copy(out, p.acc)
	case lowers > 0:
		s.copy(out, result)
	}
}

// ScanCentral leaves the work to rank 0, which does for all ranks what the rounds of Scan do.
func ScanCentral(s *Schedule, rank, n, k int, exclusive bool) {
	if rank != 0 {
		s.recv(0, Span{Out, 0, k})
		s.send(0, Span{In, 0, k})
		return
	}
	all := s.room(n * k)
	of := func(x Span, r int) Span { return x.Part(r*k, (r+1)*k) }
	result := all
	if exclusive {
		result = s.room(n * k)
	}
	gather(s, rank, n, all.Mem, Equal(k))
	s.copy(of(all, 0), Span{In, 0, k})
	for d := 1; d < n; d *= 2 {
		for r := n - 1; r >= d; r-- { // the lower rank's elements are still those of the round before
			below := of(all, r-d)
			if exclusive && d == 1 {
				s.copy(of(result, r), below)
			} else if exclusive {
				s.combine(of(result, r), below, of(result, r))
			}
			s.combine(of(all, r), below, of(all, r))
		}
	}
	if !exclusive {
		s.copy(Span{Out, 0, k}, of(all, 0))
	}
	scatter(s, rank, n, result.Mem, Equal(k))
}
