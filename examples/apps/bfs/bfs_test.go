package main

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(scale, roots int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return bfs(c, scale, roots, out) }
}

func TestBfs(t *testing.T) {
	apptest.Succeeds(t, program(9, 4), 1, 2, 3, 4)
	apptest.Succeeds(t, program(2, 2), 5) // a rank without vertices
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return bfs(c, 14, 16, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(8, 4), 3, 3) }

// The vertices get other numbers, each one of its own.
func TestRelabel(t *testing.T) {
	for _, scale := range []int{1, 2, 3, 7, 12} {
		seen := make([]bool, 1<<scale)
		for v := range seen {
			w := relabel(scale, v)
			if w < 0 || w >= len(seen) || seen[w] {
				t.Fatalf("scale %d: %d becomes %d, again or beyond the end", scale, v, w)
			}
			seen[w] = true
		}
	}
}

// Each rule finds a tree that breaks it. The graph is the path 0-1-2-3, and 4-5 apart, on two ranks.
func TestValidate(t *testing.T) {
	for _, x := range []struct {
		name    string
		parents []int
		right   bool
	}{
		{"right", []int{0, 0, 1, 2, -1, -1}, true},
		{"circle", []int{0, 0, 3, 2, -1, -1}, false},
		{"another root", []int{0, 0, 1, 2, 4, 4}, false},
		{"no edge", []int{0, 0, 1, 1, -1, -1}, false},
		{"not all", []int{0, 0, 1, -1, -1, -1}, false},
		{"the root has a parent", []int{1, 0, 1, 2, -1, -1}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				g := &graph{c: c, n: 6, lo: 3 * c.Rank(), hi: 3*c.Rank() + 3}
				ends := [][]int{{1}, {0, 2}, {1, 3}, {2}, {5}, {4}}
				for _, e := range ends[g.lo:g.hi] {
					g.begin = append(g.begin, len(g.ends))
					g.ends = append(g.ends, e...)
				}
				g.begin = append(g.begin, len(g.ends))
				_, wrong, err := g.validate(0, slices.Clone(x.parents[g.lo:g.hi]))
				if err != nil {
					return err
				}
				bad, err := mpi.AllreduceValue(c, wrong != nil, mpi.LOr)
				if err == nil && bad == x.right {
					err = fmt.Errorf("found wrong: %v", bad)
				}
				return err
			})
		})
	}
}
