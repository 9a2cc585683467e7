package main

import "github.com/gorun-mpi/gorun/internal/system/memcopy"

// startParts: each process adds, of each piece, its own part of what all have
// written. The results of a piece are taken when all meet for the next one.
func startParts(s *shared) doing {
	b := newBulk(s)
	part := s.Piece / s.Procs
	own := func(rank int) []float64 { return asFloats(b.area(s.seen, rank)[s.Rank*part:][:part]) }
	do := func() {
		for at := 0; at <= s.Bytes; at += s.Piece {
			last := b.area(s.seen, s.Procs)
			b.turn++
			if at < s.Bytes {
				memcopy.Bytes(b.area(s.mem, s.Rank), asBytes(b.out)[at:])
			}
			s.meet()
			if at > 0 {
				memcopy.Bytes(asBytes(b.in)[at-s.Piece:], last)
			}
			if at < s.Bytes {
				sum := asFloats(b.area(s.mem, s.Procs)[s.Rank*part:][:part])
				copy(sum, own(0))
				for rank := 1; rank < s.Procs; rank++ {
					add(sum, own(rank))
				}
			}
		}
	}
	return doing{do, b.isSum}
}

// startChain: each process adds its numbers to the sum, piece by piece, when the
// one before it has; all take what the last one leaves.
func startChain(s *shared) doing {
	b := newBulk(s)
	calls, pieces, each := 0, 0, s.Bytes/s.Piece
	do := func() {
		calls++
		sum, result := s.buffer(s.mem, calls%2, s.Bytes), s.buffer(s.seen, calls%2, s.Bytes)
		if s.Rank == 0 { // the call before the last one has used the same memory
			s.awaitAll(done, uint64(max(calls-2, 0)))
		}
		for k := range each {
			at, n := k*s.Piece, uint64(pieces+k+1)
			if s.Rank == 0 {
				memcopy.Bytes(sum[at:][:s.Piece], asBytes(b.out)[at:])
			} else {
				s.await(s.word(s.Rank-1, mark), n)
				add(asFloats(sum[at:][:s.Piece]), asFloats(asBytes(b.out)[at:]))
			}
			s.set(mark, n)
		}
		for k := range each {
			at, n := k*s.Piece, uint64(pieces+k+1)
			s.await(s.word(s.Procs-1, mark), n)
			memcopy.Bytes(asBytes(b.in)[at:][:s.Piece], result[at:])
		}
		pieces += each
		s.set(done, uint64(calls))
	}
	return doing{do, b.isSum}
}

func (b *bulk) isSum() error {
	return b.is(func(i int) (sum float64) {
		for rank := range b.Procs {
			sum += value(rank, i)
		}
		return sum
	})
}

// add adds as many numbers as there are in to.
func add(to, from []float64) {
	from = from[:len(to)]
	for i := range to {
		to[i] += from[i]
	}
}
