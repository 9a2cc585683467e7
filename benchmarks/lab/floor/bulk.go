package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/memcopy"
)

// bulk is what a process has of a collective of long buffers. What others need
// goes to shared memory in pieces; there are two areas for each, used in turns,
// so that one meeting a piece is enough.
type bulk struct {
	*shared
	out, in []float64
	turn    int
}

func newBulk(s *shared) *bulk {
	b := &bulk{shared: s, out: make([]float64, s.Bytes/8), in: make([]float64, s.Bytes/8)}
	for i := range b.out {
		b.out[i] = value(s.Rank, i)
		b.in[i] = -1
	}
	return b
}

// value is what a process sends.
func value(rank, i int) float64 { return float64(rank*1000 + i) }

// area is where a process has its piece.
func (b *bulk) area(mem []byte, rank int) []byte { return b.buffer(mem, 2*rank+b.turn%2, b.Piece) }

// is compares what came in with what should have.
func (b *bulk) is(want func(i int) float64) error {
	for i, v := range b.in {
		if v != want(i) {
			return fmt.Errorf("number %d is %g, not %g", i, v, want(i))
		}
	}
	return nil
}

// startAlltoall: each process writes a part for every other one, and takes those
// for itself.
func startAlltoall(s *shared) doing {
	b := newBulk(s)
	block, part := s.Bytes/s.Procs, s.Piece/s.Procs
	out, in := asBytes(b.out), asBytes(b.in)
	do := func() {
		for at := 0; at < block; at += part {
			b.turn++
			mine := b.area(s.mem, s.Rank)
			for to := range s.Procs {
				memcopy.Bytes(mine[to*part:][:part], out[to*block+at:])
			}
			s.meet()
			for k := range s.Procs {
				from := (s.Rank + k) % s.Procs
				memcopy.Bytes(in[from*block+at:][:part], b.area(s.seen, from)[s.Rank*part:])
			}
		}
	}
	return doing{do, func() error {
		n := block / 8
		return b.is(func(i int) float64 { return value(i/n, s.Rank*n+i%n) })
	}}
}

// slots are how many pieces who sends them may be ahead.
const slots = 4

// startBcast: the root writes, the others take.
func startBcast(s *shared) doing {
	b := newBulk(s)
	calls, pieces := 0, 0
	do := func() {
		root := calls % s.Procs
		calls++
		if root == s.Rank { // each has the same, but for this word
			b.out[0] = float64(calls)
		}
		for at := 0; at < s.Bytes; at += s.Piece {
			slot := pieces % slots
			pieces++
			if root == s.Rank {
				s.awaitAll(done, uint64(max(pieces-slots, 0)))
				memcopy.Bytes(s.buffer(s.mem, slot, s.Piece), asBytes(b.out)[at:])
				s.set(mark, uint64(pieces))
			} else {
				s.await(s.word(root, mark), uint64(pieces))
				memcopy.Bytes(asBytes(b.in)[at:][:s.Piece], s.buffer(s.seen, slot, s.Piece))
			}
			s.set(done, uint64(pieces))
		}
	}
	return doing{do, func() error {
		root := (calls - 1) % s.Procs
		if root == s.Rank {
			return nil
		}
		return b.is(func(i int) float64 {
			if i == 0 {
				return float64(calls)
			}
			return value(root, i)
		})
	}}
}
