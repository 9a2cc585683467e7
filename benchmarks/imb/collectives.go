package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// collectives are the tests of collectives.
var collectives = func() (all []*test) {
	for _, c := range patterns.All {
		t := &test{name: c.Name, shape: times, unit: c.Unit, room: c.Room, scale: 1, parts: 1, root: c.Rooted, on: func(s *sample) patterns.Calls {
			calls := c.On(&s.Buffers)
			calls.Begin = nil
			return calls
		}}
		if !c.Sized() {
			t.shape = barrier
		}
		all = append(all, t)
	}
	reduceLocal := &test{name: "Reduce_local", shape: times, unit: 4, room: blocks(2), scale: 1, parts: 1, on: func(s *sample) patterns.Calls {
		dst, src := s.Floats(), s.Floats()
		return patterns.Calls{Do: func(int) error { return mpi.ReduceLocal(dst, src, mpi.Sum) }, Check: local(dst, src)}
	}}
	return slices.Insert(all, 2, reduceLocal) // after Reduce
}()

// nonblocking are the tests of IMB-NBC: each with its overlap, and as _pure without.
var nonblocking = func() (all []*test) {
	var pure []*test
	for _, c := range patterns.All {
		if c.Name == "Reduce_scatter_block" {
			continue // the suite has no such test
		}
		t := test{name: c.Nonblocking(), shape: overlap, unit: c.Unit, room: c.Room, scale: 1, parts: 1, root: c.Rooted, on: func(s *sample) patterns.Calls {
			calls := c.On(&s.Buffers)
			calls.Do = nil
			return calls
		}}
		p := t
		p.name, p.shape, p.off = t.name+"_pure", times, true
		if !c.Sized() {
			t.shape, p.shape = overlapAlone, barrier
		}
		all, pure = append(all, &t), append(pure, &p)
	}
	return append(all, pure...)
}()

// local checks that src was added to dst.
func local(dst, src []float32) patterns.Check {
	own, other := func(i, k int) float32 { return float32((i + k) % 16) }, func(k int) float32 { return float32(k % 16) }
	return patterns.Check{
		Fill: func(i int) {
			for k := range dst {
				dst[k], src[k] = own(i, k), other(k)
			}
		},
		Wrong: func(i int) (n int) {
			for k, x := range dst {
				if x != own(i, k)+other(k) {
					n++
				}
			}
			return n
		},
	}
}
