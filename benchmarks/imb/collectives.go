package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// collectives are the tests of collectives.
var collectives = func() (all []*test) {
	for _, c := range patterns.All {
		t := &test{name: c.Name, shape: times, unit: c.Unit, room: c.Room, scale: 1, parts: 1, step: func(s *sample) func(int) error { return c.On(&s.Buffers).Do }}
		if !c.Sized() {
			t.shape = barrier
		}
		all = append(all, t)
	}
	local := &test{name: "Reduce_local", shape: times, unit: 4, room: blocks(2), scale: 1, parts: 1, step: func(s *sample) func(int) error {
		a, b := s.Floats(), s.Floats()
		return func(int) error { return mpi.ReduceLocal(b, a, mpi.Sum) }
	}}
	return slices.Insert(all, 2, local) // after Reduce
}()

// nonblocking are the tests of IMB-NBC: each with its overlap, and as _pure without.
var nonblocking = func() (all []*test) {
	var pure []*test
	for _, c := range patterns.All {
		if c.Name == "Reduce_scatter_block" {
			continue // the suite has no such test
		}
		t := test{name: c.Nonblocking(), shape: overlap, unit: c.Unit, room: c.Room, scale: 1, parts: 1, begin: func(s *sample) func(int) (mpi.Request, error) { return c.On(&s.Buffers).Begin }}
		p := t
		p.name, p.shape, p.off = t.name+"_pure", times, true
		if !c.Sized() {
			t.shape, p.shape = overlapAlone, barrier
		}
		all, pure = append(all, &t), append(pure, &p)
	}
	return append(all, pure...)
}()
