package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// id names a race: one test with so many ranks.
type id struct {
	transport string
	test      string
	ranks     int
}

func (i id) String() string {
	return fmt.Sprintf("%s on %d ranks over %s", i.test, i.ranks, i.transport)
}

// unit is what every contender runs once a round.
type unit struct {
	transport string
	test      string
	ranks     int
	sizes     []int
	time      time.Duration // per size
	count     int           // iterations of a program, or starts
	edge      int           // and the size of its problem; of a NAS benchmark, the class
}

func (u unit) id() id { return id{u.transport, u.test, u.ranks} }

// test is a kind of measurement.
type test struct {
	name  string
	pair  bool        // messages between two ranks
	ranks []int       // numbers of ranks if not
	edge  int         // of a program's problem
	count map[int]int // its iterations, or starts, by ranks; fewer where they take longer
	sized bool        // has sizes
}

var tests = []test{
	{name: "pingpong", pair: true, sized: true},
	{name: "dirty", pair: true, sized: true},
	{name: "stream", pair: true, sized: true},
	{name: "window", pair: true},
	{name: "column", pair: true},
	{name: "collectives", ranks: []int{2, 4, 16, 64}},
	{name: "start", ranks: []int{2, 16, 64}, count: map[int]int{2: 5, 16: 3, 64: 1}},
	{name: "heat", ranks: []int{2, 8, 64}, edge: 256, count: map[int]int{2: 20000, 8: 5000, 64: 1000}},
	{name: "solver", ranks: []int{2, 8, 64}, edge: 24, count: map[int]int{2: 3000, 8: 600, 64: 150}},
	{name: "cg", ranks: []int{1, 2, 4}, edge: 'A', count: map[int]int{1: 15}},
	{name: "is", ranks: []int{1, 2, 4}, edge: 'A', count: map[int]int{1: 10}},
	{name: "mg", ranks: []int{1, 2, 4}, edge: 'A', count: map[int]int{1: 4}},
	{name: "stencil", ranks: []int{1, 2, 4}, edge: 2000, count: map[int]int{1: 100}},
}

// programs are the tests that tell how long an iteration takes, nas those of them that are NAS benchmarks.
var (
	nas      = []string{"cg", "is", "mg"}
	programs = slices.Concat([]string{"heat", "solver", "stencil"}, nas)
)

// times are the quantities that are measured of all programs.
func times() []string {
	var all []string
	for _, p := range programs {
		all = append(all, p+" outside", p+" loop", p+" slow-down")
	}
	return all
}

func testNames() []string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return names
}

// plan returns the units of a round.
func plan(o *options) []unit {
	var units []unit
	for i, transport := range o.transports {
		for _, t := range tests {
			if !slices.Contains(o.tests, t.name) || i > 0 && (!t.pair || o.short && t.name != "pingpong") {
				continue
			}
			for _, ranks := range t.numbers(o) {
				u := unit{transport: transport, test: t.name, ranks: ranks, sizes: []int{8}, time: o.time, edge: t.edge, count: t.repetitions(ranks)}
				if ranks > runtime.NumCPU() { // they wait for each other's turns
					u.time *= 4
				}
				switch {
				case t.sized:
					u.sizes = o.sizes
				case t.name == "column":
					u.sizes = []int{8 << 10, 64 << 10} // of 1024 and 8192 rows of as many numbers
				case t.name == "collectives":
					u.sizes = o.opSizes
				}
				switch {
				case o.short && slices.Contains(nas, t.name): // the smallest class
					u.edge = 'S'
				case o.short:
					u.count, u.edge = min(u.count, 10)/5, t.edge/2
				}
				units = append(units, u)
			}
		}
	}
	return units
}

// numbers returns the numbers of ranks that a test is run with.
func (t *test) numbers(o *options) []int {
	switch {
	case t.pair:
		return []int{2}
	case o.short:
		return t.ranks[:1]
	case o.ranks != nil:
		return o.ranks
	}
	return t.ranks
}

// repetitions returns the count for so many ranks, or for the next number below.
func (t *test) repetitions(ranks int) int {
	for n := ranks; n > 0; n-- {
		if count, ok := t.count[n]; ok {
			return count
		}
	}
	return 1
}
