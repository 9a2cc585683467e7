package schedule

// Collectives between two groups. Peers are ranks of the other group, and everything goes at once:
// no rank waits for its own group. (MPI-4.1, chapter 6.2.3)

// Whole is one block of k elements for all ranks.
func Whole(k int) Blocks { return func(int) (int, int) { return 0, k } }

// Across sends block out(i) of In to each rank i of to, and receives block in(i) of Out from each rank i of from.
func Across(to, from []int, out, in Blocks) *Schedule {
	s := &Schedule{}
	s.round()
	for _, r := range from {
		s.recv(r, in.of(Out, r))
	}
	for _, r := range to {
		s.send(r, out.of(In, r))
	}
	return s
}

// AcrossCombined sends all k elements of In to each rank of to. It combines as many of each of n ranks of the other group, and
// leaves the elements [lo:hi) of the result in Out.
func AcrossCombined(to []int, n, k, lo, hi int) *Schedule {
	s := &Schedule{}
	s.round()
	all := s.room(n * k)
	for r := range n {
		s.recv(r, all.Part(r*k, (r+1)*k))
	}
	for _, r := range to {
		s.send(r, Span{In, 0, k})
	}
	if n > 0 {
		at := func(r int) Span { return all.Part(r*k+lo, r*k+hi) }
		s.fold(n, at)
		s.copy(Span{Out, 0, hi - lo}, at(0))
	}
	return s
}
