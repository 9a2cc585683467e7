package schedule

// Neighbors sends block j of In to dests[j] and receives block i of Out from sources[i]. A number below 0 is no rank.
// Of several messages to one rank those that are earlier in order are sent first; nil is the order of dests. What a
// rank sends to itself is copied: the first such block to the first such source. It has as many of each, of equal
// lengths. (MPI-4.1, chapter 8.6)
func Neighbors(s *Schedule, rank int, sources, dests, order []int, in, out Blocks) {
	for i, peer := range sources {
		if peer >= 0 && peer != rank {
			s.recv(peer, out.of(Out, i))
		}
	}
	at := func(j int) int {
		if order != nil {
			return order[j]
		}
		return j
	}
	for j := range dests {
		if i := at(j); dests[i] >= 0 && dests[i] != rank {
			s.send(dests[i], in.of(In, i))
		}
	}
	next := 0 // the first source that may be the rank itself and was not copied to
	for j := range dests {
		if i := at(j); dests[i] == rank {
			for sources[next] != rank {
				next++
			}
			s.copy(out.of(Out, next), in.of(In, i))
			next++
		}
	}
}
