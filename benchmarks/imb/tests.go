package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
)

// shape is which columns a test has.
type shape int

const (
	oneTime      shape = iota // time and bandwidth
	rates                     // bandwidth and messages a second
	timesAndRate              // least, most and mean time of the ranks, and bandwidth
	times                     // the same without bandwidth
	barrier                   // the same without sizes
	overlap                   // overlapped, pure and computing time, and the overlap
	overlapAlone              // the same without sizes
)

// overlaps reports whether the test computes beside the call.
func (s shape) overlaps() bool { return s == overlap || s == overlapAlone }

// sized reports whether there is a line for each size.
func (s shape) sized() bool { return s != barrier && s != overlapAlone }

// test is one benchmark.
type test struct {
	name  string
	shape shape
	pair  bool    // between two ranks
	even  bool    // between two halves of the ranks
	off   bool    // only runs when it is named
	root  bool    // one rank has another part than the others
	unit  int     // bytes of an element
	scale float64 // messages of a repetition that count for the bandwidth
	parts float64 // time shown is that of a repetition divided by this
	loose bool    // no barrier before each repetition

	room func(np int) (blocks int)      // how many blocks of a size the buffers have, all together
	on   func(s *sample) patterns.Calls // makes the buffers; without Do it is a nonblocking test
}

// component is one program of the suite.
type component struct {
	name, title string
	tests       []*test
}

var components = []*component{
	{"IMB-MPI1", "MPI-1", slices.Concat(messages, collectives)},
	{"IMB-NBC", "MPI-NBC", nonblocking},
}

// find returns the component of that name, nil if there is none.
func find(name string) *component {
	for _, c := range components {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return nil
}

// list prints the names of all tests.
func (c *component) list(w io.Writer) (err error) {
	fmt.Fprintf(w, "List of benchmarks:\n%s:\n", c.name)
	for _, t := range c.tests {
		note := ""
		if t.off {
			note = " (non-default)"
		}
		_, err = fmt.Fprintf(w, "    %s%s\n", t.name, note)
	}
	return err
}

// chosen returns the tests that are to run, in the order of the component or, if they are named, of the names.
func (c *component) chosen(names, included, without []string) (tests []*test, err error) {
	if len(names) == 0 {
		for _, t := range c.tests {
			if !t.off {
				names = append(names, t.name)
			}
		}
	}
	var excluded []*test
	if excluded, err = c.named(without); err != nil {
		return nil, err
	}
	all, err := c.named(append(slices.Clone(names), included...))
	for _, t := range all {
		if !slices.Contains(excluded, t) && !slices.Contains(tests, t) {
			tests = append(tests, t)
		}
	}
	return tests, err
}

// named looks names up, in any case.
func (c *component) named(names []string) (tests []*test, err error) {
	for _, name := range names {
		at := slices.IndexFunc(c.tests, func(t *test) bool { return strings.EqualFold(t.name, name) })
		if at < 0 {
			var known []string
			for _, t := range c.tests {
				known = append(known, t.name)
			}
			return nil, fmt.Errorf("%s has no test %q, only %s", c.name, name, strings.Join(known, " "))
		}
		tests = append(tests, c.tests[at])
	}
	return tests, nil
}
