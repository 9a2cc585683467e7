package schedule

// Collectives between two groups. Peers are ranks of the other group, and everything goes at once:
// no rank waits for its own group. (MPI-4.1, chapter 6.2.3)

// Ranks are those from Lo to below Hi.
type Ranks struct{ Lo, Hi int }

// Across sends block out(i) of In to each rank i of to, and receives block in(i) of Out from each rank i of from.
func Across(s *Schedule, to, from Ranks, out, in Blocks) {
	for r := from.Lo; r < from.Hi; r++ {
		s.recv(r, in.of(Out, r))
	}
	for r := to.Lo; r < to.Hi; r++ {
		s.send(r, out.of(In, r))
	}
}

// AcrossCombined sends all k elements of In to each rank of to. It combines as many of each of n ranks of the other
// group, and leaves the elements [lo:hi) of the result in Out.
func AcrossCombined(s *Schedule, to Ranks, n, k, lo, hi int) {
	all := s.room(n * k)
	for r := range n {
		s.recv(r, all.Part(r*k, (r+1)*k))
	}
	for r := to.Lo; r < to.Hi; r++ {
		s.send(r, Span{In, 0, k})
	}
	if n > 0 {
		at := func(r int) Span { return all.Part(r*k+lo, r*k+hi) }
		fold(s, n, at)
		s.copy(Span{Out, 0, hi - lo}, at(0))
	}
}
