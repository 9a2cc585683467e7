// Package poisson has what the programs of the NAS benchmark MG have in common: its problems, and how they are verified (RNR-94-007, section 2.5).
package poisson

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// Problem is that of a class.
type Problem struct {
	N      int // points along an edge of the cube
	Cycles int
	Smooth [3]float64 // weights of a point, its 6 neighbours and the 12 beyond; the 8 at the corners have none
	Norm   float64    // published, of the last residual
}

// Problems has all classes.
var Problems = map[nas.Class]Problem{
	'S': {32, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.5307707005734e-04},
	'W': {128, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.6467329375339e-05},
	'A': {256, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.2433365309069e-05},
	'B': {256, 20, [3]float64{-3. / 17, 1. / 33, -1. / 61}, 0.1800564401355e-05},
}

// charge is a point and the random number there.
type charge struct {
	V  float64
	At int64
}

// Charges returns where the right-hand side is not 0. Of random numbers on all points it is 1 where the ten largest are, and -1
// where the ten smallest are. All ranks together have all points, this one a box. Points are counted with x running fastest.
func (p Problem) Charges(c *mpi.Comm, from, size [3]int) (plus, minus []int, err error) {
	var low, high []charge
	for z := range size[0] {
		for y := range size[1] {
			at := ((from[0]+z)*p.N+from[1]+y)*p.N + from[2]
			r := nas.Seed.After(at)
			for x := range size[2] {
				q := charge{r.Next(), int64(at + x)}
				low, high = keep(low, q, -1), keep(high, q, +1)
			}
		}
	}
	if plus, err = agree(c, high, +1); err == nil {
		minus, err = agree(c, low, -1)
	}
	return plus, minus, err
}

// agree returns where the best of all ranks are.
func agree(c *mpi.Comm, own []charge, sign int) (points []int, err error) {
	all, _, err := mpi.AllgatherAlloc(c, own)
	var best []charge
	for _, q := range all {
		best = keep(best, q, sign)
	}
	for _, q := range best {
		points = append(points, int(q.At))
	}
	return points, err
}

// keep adds q to the ten largest (sign +1) or smallest (-1) numbers, in order.
func keep(best []charge, q charge, sign int) []charge {
	const many = 10
	order := func(a, b charge) int { return -sign * cmp.Compare(a.V, b.V) }
	if len(best) == many {
		if order(q, best[many-1]) >= 0 {
			return best
		}
		best = best[:many-1]
	}
	at, _ := slices.BinarySearchFunc(best, q, order)
	return slices.Insert(best, at, q)
}

// Report compares the norm of the residual, of whose squares it takes the sum.
func (p Problem) Report(squares, seconds float64) *nas.Report {
	points := float64(p.N * p.N * p.N)
	return &nas.Report{
		Name: "MG", Size: fmt.Sprintf("%dx%dx%d", p.N, p.N, p.N), Iterations: p.Cycles, Seconds: seconds,
		Operations: 58 * points * float64(p.Cycles),
		Checks:     []nas.Check{{What: "norm of the residual", Got: math.Sqrt(squares / points), Want: p.Norm, Tolerance: 1e-8}},
	}
}
