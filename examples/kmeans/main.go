// Kmeans divides points of the plane among k centres, each of which is the mean of the points nearest to it
// (Lloyd's iteration):
//
//	gorun -np 4 -cr ./examples/kmeans -n 10000000 -k 50
//
// A rank has its part of the points. One Allreduce in a round adds what all ranks know of each centre. At the end
// two sums that were computed apart must agree, as they only do if each centre is the mean of its points.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 100_000, "points")
	k := flag.Int("k", 10, "centres")
	rounds := flag.Int("rounds", 10_000, "rounds at most")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return kmeans(c, *n, *k, *rounds, os.Stdout) })
}

type point struct{ X, Y float64 }

func (p point) square(q point) float64 { return (p.X-q.X)*(p.X-q.X) + (p.Y-q.Y)*(p.Y-q.Y) }

// cluster is what is known of a centre's points.
type cluster struct {
	Count   int
	Sum     point
	Squares float64 // sum of the squares of their distances from the centre
}

// kmeans is the program of one rank.
func kmeans(c *mpi.Comm, n, k, rounds int, out io.Writer) error {
	if k < 1 || n < k {
		return fmt.Errorf("%d centres for %d points", k, n)
	}
	lo, hi := app.Range(n, c.Size(), c.Rank())
	points, centres := make([]point, hi-lo), make([]point, k)
	for i := range points {
		points[i] = nth(lo + i)
	}
	for j := range centres {
		centres[j] = nth(j)
	}
	state, round, before, settled := cr.On(c), 0, math.Inf(1), false
	if err := errors.Join(state.Register("round", &round), state.Register("centres", &centres),
		state.Register("before", &before), state.Register("settled", &settled)); err != nil {
		return err
	}
	for ; round < rounds && !settled; round++ {
		if err := state.Point(); err != nil {
			return err
		}
		all, err := measure(c, points, centres)
		if err != nil {
			return err
		}
		squares := 0.0
		for _, cl := range all {
			squares += cl.Squares
		}
		if squares > before*(1+1e-12) {
			return app.Verdict(c, out, fmt.Errorf("round %d has made the sum of squares larger: %g, not %g", round, squares, before))
		}
		settled, before = move(centres, all), squares
	}
	wrong, err := check(c, points, centres, n)
	if err != nil {
		return err
	}
	if !settled {
		wrong = errors.Join(wrong, fmt.Errorf("the centres still move after %d rounds", rounds))
	}
	app.Report(c, out, "%d points, %d centres, sum of squares %.6g after %d rounds\n", n, k, before, round)
	return app.Verdict(c, out, wrong)
}

// nth returns a point, on any rank the same: most are around one of 25 places.
func nth(i int) point {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	return point{float64(r.IntN(5)) + .3*r.NormFloat64(), float64(r.IntN(5)) + .3*r.NormFloat64()}
}

// measure finds the centre that is nearest to each point of all ranks.
func measure(c *mpi.Comm, points, centres []point) ([]cluster, error) {
	all := make([]cluster, len(centres))
	for _, p := range points {
		best, least := 0, math.Inf(1)
		for j, q := range centres {
			if d := p.square(q); d < least {
				best, least = j, d
			}
		}
		cl := &all[best]
		cl.Count, cl.Sum.X, cl.Sum.Y, cl.Squares = cl.Count+1, cl.Sum.X+p.X, cl.Sum.Y+p.Y, cl.Squares+least
	}
	return all, mpi.AllreduceInPlace(c, all, mpi.OpFunc(func(dst, src []cluster) {
		for j, s := range src {
			d := &dst[j]
			d.Count, d.Sum.X, d.Sum.Y, d.Squares = d.Count+s.Count, d.Sum.X+s.Sum.X, d.Sum.Y+s.Sum.Y, d.Squares+s.Squares
		}
	}, true))
}

// move puts each centre where the mean of its points is, and reports whether all were there.
func move(centres []point, all []cluster) (settled bool) {
	settled = true
	for j, cl := range all {
		if cl.Count == 0 {
			continue // nothing is nearest to it: it stays
		}
		mean := point{cl.Sum.X / float64(cl.Count), cl.Sum.Y / float64(cl.Count)}
		settled = settled && centres[j] == mean
		centres[j] = mean
	}
	return settled
}

// check tells what is wrong. The squares of all points' distances from the origin are those of the centres, as often
// as they have points, and those of the distances from the centres, if each centre is the mean of its points.
func check(c *mpi.Comm, points, centres []point, n int) (wrong, err error) {
	squares := 0.0
	for _, p := range points {
		squares += p.square(point{})
	}
	if squares, err = mpi.AllreduceValue(c, squares, mpi.Sum); err != nil {
		return nil, err
	}
	all, err := measure(c, points, centres)
	if err != nil {
		return nil, err
	}
	count, sum := 0, 0.0
	for j, cl := range all {
		count, sum = count+cl.Count, sum+cl.Squares+float64(cl.Count)*centres[j].square(point{})
	}
	switch {
	case count != n:
		return fmt.Errorf("%d points have a centre, of %d", count, n), nil
	case !(math.Abs(sum-squares) <= 1e-10*squares):
		return fmt.Errorf("the centres are not the means: %g is not %g", sum, squares), nil
	}
	return nil, nil
}
