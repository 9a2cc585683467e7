package main

import (
	"strings"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// collectives are the tests of collectives, first all that block.
var collectives = func() (all []*test) {
	var begun []*test
	for _, c := range patterns.All {
		if c.Name == "Reduce_scatter_block" {
			continue // the suite has no such test
		}
		t := test{name: "osu_" + strings.ToLower(c.Name), title: title(c.Name) + " Latency Test", unit: c.Unit, room: c.Room, reps: [2]int{1000, 200}, skip: [2]int{100, 10}}
		if c.Sized() {
			t.min, t.max = c.Unit, 1<<20
		}
		i := t
		i.name, i.title = "osu_i"+strings.ToLower(c.Name), "Non-blocking "+t.title
		t.do = func(b *patterns.Buffers) (func(int) error, patterns.Check) {
			calls := c.On(b)
			return calls.Do, calls.Check
		}
		i.begin = func(b *patterns.Buffers) (func(int) (mpi.Request, error), patterns.Check) {
			calls := c.On(b)
			return calls.Begin, calls.Check
		}
		all, begun = append(all, &t), append(begun, &i)
	}
	return append(all, begun...)
}()

// title returns how the first line of the output names a collective.
func title(name string) string { return strings.ReplaceAll(name, "_s", "_S") }
