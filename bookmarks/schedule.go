package bookmarks

// The staggered schedule is a round-robin tournament. Let m be np if np is odd, and np-1 if it is even. In step
// s the ranks i and j meet for which i + j = s (mod m). If np is odd, the rank that would meet itself pauses.
// If np is even, it meets the last rank, which stands outside the circle. So every pair meets exactly once, and
// no rank meets two others in one step.

// Steps returns the number of steps in which np ranks all meet.
func Steps(np int) int {
	switch {
	case np < 2:
		return 0
	case np%2 == 0:
		return np - 1
	}
	return np
}

// Partner returns the peer that the rank meets in a step, 0 <= step < Steps(np), and whether the rank sends
// first. The lower of the two sends first; the other receives first. The peer is -1 if the rank pauses in this
// step.
func Partner(rank, np, step int) (peer int, sendFirst bool) {
	m := Steps(np)
	if np%2 == 0 && rank == np-1 {
		// The circle's rank x with 2x = step (mod m): np/2 is the inverse of 2.
		return int(int64(step) * int64(np/2) % int64(m)), false
	}
	peer = (step - rank + m) % m
	if peer == rank {
		if np%2 != 0 {
			return -1, false
		}
		peer = np - 1
	}
	return peer, rank < peer
}

// StepOf returns the step in which two different ranks meet.
func StepOf(rank, peer, np int) int {
	m := Steps(np)
	if np%2 == 0 && rank == np-1 {
		rank = peer
	}
	if np%2 == 0 && peer == np-1 {
		peer = rank
	}
	return (rank + peer) % m
}
