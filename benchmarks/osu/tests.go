package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// test is one benchmark. It has one of run, do and begin.
type test struct {
	name, title string // the program; how its first line names it
	min, max    int    // sizes, in bytes; 0: there are none
	unit        int    // bytes of an element
	reps, skip  [2]int // of small and large sizes
	room        func(np int) (blocks int)

	run     func(p *pairs, reps, skip int) ([]float64, error) // messages: the columns
	heads   []string                                          // and their heads
	single  bool                                              // between two ranks only
	windows bool                                              // of many messages

	do    func(b *patterns.Buffers) (func(i int) error, patterns.Check)                // a collective
	begin func(b *patterns.Buffers) (func(i int) (mpi.Request, error), patterns.Check) // a nonblocking one
}

// sized reports whether there is a line for each size.
func (t *test) sized() bool { return t.max > 0 }

var tests = slices.Concat(messages, collectives)

// find returns the test of that name, nil if there is none.
func find(name string) *test {
	at := slices.IndexFunc(tests, func(t *test) bool { return t.name == name })
	if at < 0 {
		return nil
	}
	return tests[at]
}

func names() (all []string) {
	for _, t := range tests {
		all = append(all, t.name)
	}
	return all
}
