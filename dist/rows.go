package dist

import (
	"fmt"
	"slices"
)

// Rows says which rank has which rows of an Array: rank r those from Rows[r] up to, and not with, Rows[r+1]. It begins
// with 0, falls nowhere, and has an entry more than there are ranks. A rank may have no rows.
type Rows []int

// Even cuts n rows into parts for so many ranks, as even as possible.
func Even(n, ranks int) Rows {
	r := make(Rows, ranks+1)
	for i := range r {
		r[i] = n/ranks*i + n%ranks*i/ranks
	}
	return r
}

// Total is the number of rows of all ranks.
func (r Rows) Total() int { return r[len(r)-1] }

// Of returns the rows of a rank, first <= i < end.
func (r Rows) Of(rank int) (first, end int) { return r[rank], r[rank+1] }

// Rank returns the rank that has a row, -1 if there is no such row.
func (r Rows) Rank(row int) int {
	if row < 0 || row >= r.Total() {
		return -1
	}
	rank, _ := slices.BinarySearch(r, row+1)
	return rank - 1
}

// check returns an error if the rows are not those of so many ranks.
func (r Rows) check(ranks int) error {
	if len(r) != ranks+1 || r[0] != 0 || !slices.IsSorted(r) {
		return fmt.Errorf("%w: %v for %d ranks", ErrRows, []int(r), ranks)
	}
	return nil
}

// message is rows that one rank has and another one has in its halo.
type message struct{ peer, first, end int }

// halo lists what a rank receives for halos of so many rows, and what it sends, by peer.
func (r Rows) halo(rank, width int) (in, out []message) {
	for peer := range len(r) - 1 {
		if peer != rank {
			in = append(in, r.between(rank, peer, peer, width)...)
			out = append(out, r.between(peer, rank, peer, width)...)
		}
	}
	return in, out
}

// between lists what the halo of one rank has of another one's rows.
func (r Rows) between(halo, owner, peer, width int) []message {
	first, end := r.Of(halo)
	lo, hi := r.Of(owner)
	if lo >= end {
		hi = min(hi, end+width)
	} else {
		lo = max(lo, first-width)
	}
	if first == end || lo >= hi {
		return nil
	}
	return []message{{peer, lo, hi}}
}
