// Bfs searches a large random graph breadth first, as the benchmark Graph500 has it (specification 3.0, kernels 1
// and 2):
//
//	gorun -np 4 -cr ./examples/apps/bfs -scale 18 -roots 16
//
// The graph is a Kronecker graph of 2^scale vertices and 16 edges for each. Ranks have the vertices in equal parts.
// In a level of a search nobody knows from whom messages come, nor how many. Receives from any source are persistent;
// sends are synchronous, so that a rank knows when its own have met a receive; and who knows that enters an Ibarrier.
// When that completes all messages have (Hoefler, Siebert and Lumsdaine: Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, 2010).
//
// Each tree is validated by the rules of the specification.
package main

import (
	"errors"
	"flag"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	scale := flag.Int("scale", 14, "the graph has 2^`SCALE` vertices")
	roots := flag.Int("roots", 64, "searches")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return bfs(c, *scale, *roots, os.Stdout) })
}

// result is what all searches have found together.
type result struct{ Reached, Edges, Levels int }

// bfs is the program of one rank. It has a Point before each search.
func bfs(c *mpi.Comm, scale, roots int, out io.Writer) error {
	if scale < 1 || scale > 40 || roots < 0 {
		return errors.New("-scale must be within 1..40, and -roots not negative")
	}
	g, err := build(c, scale)
	if err != nil {
		return err
	}
	s, err := newSearch(g)
	if err != nil {
		return err
	}
	state, done, next, sum := cr.On(c), 0, 0, result{}
	if err := errors.Join(state.Register("done", &done), state.Register("next", &next), state.Register("sum", &sum)); err != nil {
		return err
	}
	for ; done < roots; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		root, err := g.root(&next)
		if err != nil {
			return err
		}
		if err := s.from(root); err != nil {
			return err
		}
		r, wrong, err := g.validate(root, s.parents)
		if err != nil {
			return err
		}
		if bad, err := mpi.AllreduceValue(c, wrong != nil, mpi.LOr); bad || err != nil {
			return errors.Join(err, app.Verdict(c, out, wrong))
		}
		sum.Reached, sum.Edges, sum.Levels = sum.Reached+r.Reached, sum.Edges+r.Edges, sum.Levels+r.Levels
	}
	app.Report(c, out, "%d searches among %d vertices have reached %d vertices, %d edges, %d levels\n", roots, g.n, sum.Reached, sum.Edges, sum.Levels)
	return app.Verdict(c, out, nil)
}
