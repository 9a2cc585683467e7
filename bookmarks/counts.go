// Package bookmarks finds out when nothing is in flight between the ranks of a job. It needs no marker in any
// channel.
//
// Every rank counts, for each peer, the bytes it has sent and received since the job started. When all have
// stopped sending, they tell each other the *sent* counts, the bookmarks. Then they receive until the received
// counts are equal:
//
//	rank 0                               rank 1
//	sent to 1: 480 ---- bookmark 480 --->
//	           <------- bookmark 96 ---- sent to 0: 96
//	received from 1: 96  = 96: drained   received from 0: 432, 48 missing
//	                     (in flight) ==> received from 0: 480  = 480: drained
//
// The bookmarks are exchanged in one of two ways. In a staggered exchange each rank meets all others in turn,
// one distinct partner a step, so no rank is swamped (Partner). In a sparse exchange only ranks that ever
// talked exchange bookmarks; each has been told how many senders it has.
//
// Everything here is pure: no clock, no I/O, no goroutines. Memory is proportional to the number of peers
// talked to, never to the square of the number of ranks.
package bookmarks

import "slices"

// Count is a number of bytes sent to or received from one peer.
type Count struct {
	Peer  int
	Bytes uint64
}

// Counts are the counts of one rank, in ascending order of peers. A peer that is not listed counts zero.
type Counts []Count

// FromSlice returns the counts in by, indexed by rank. It leaves out rank self: its messages to itself never
// enter a channel.
func FromSlice(by []uint64, self int) Counts {
	n := 0
	for peer, b := range by {
		if b != 0 && peer != self {
			n++
		}
	}
	c := make(Counts, 0, n)
	for peer, b := range by {
		if b != 0 && peer != self {
			c = append(c, Count{peer, b})
		}
	}
	return c
}

// Of returns the bytes counted for the peer.
func (c Counts) Of(peer int) uint64 {
	i, ok := slices.BinarySearchFunc(c, peer, func(a Count, p int) int { return a.Peer - p })
	if !ok {
		return 0
	}
	return c[i].Bytes
}

func (c Counts) sort() {
	slices.SortFunc(c, func(a, b Count) int { return a.Peer - b.Peer })
}
