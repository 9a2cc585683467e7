// Ep is the NAS benchmark EP: pairs of Gaussian deviates, counted by size (RNR-94-007, section 2.2).
//
//	gorun -np 4 -cr ./examples/apps/npb/ep A
//
// It runs on any number of ranks, which meet only at the end. A rank's state is its sums so far.
package main

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// problem is that of a class: 2^m pairs, how many of them make deviates, and the published sums of these.
type problem struct {
	m, kept int
	sx, sy  float64
}

var problems = map[nas.Class]problem{
	'S': {24, 13176389, -3.247834652034740e+3, -6.958407078382297e+3},
	'W': {25, 26354769, -2.863319731645753e+3, -6.320053679109499e+3},
	'A': {28, 210832767, -4.295875165629892e+3, -1.580732573678431e+4},
	'B': {30, 843345606, 4.033815542441498e+4, -2.660669192809235e+4},
}

const (
	seed  nas.Random = 271828183
	batch            = 1 << 16 // pairs between two Points
)

// tally is what is counted: the sums of both deviates, and how many pairs have their larger one in [l, l+1).
type tally struct {
	SX, SY float64
	Q      [10]float64
}

func main() { nas.Main(ep) }

func ep(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	var t tally
	loop, err := nas.NewLoop(c, map[string]any{"tally": &t})
	if err != nil {
		return nil, err
	}
	batches, ranks := 1<<p.m/batch, c.Size()
	seconds, err := loop.Run((batches+ranks-1)/ranks, func(i int) error {
		if b := (i-1)*ranks + c.Rank(); b < batches {
			t.add(b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sums := append([]float64{t.SX, t.SY}, t.Q[:]...)
	if err := mpi.AllreduceInPlace(c, sums, mpi.Sum); err != nil {
		return nil, err
	}
	kept := 0.0
	for _, n := range sums[2:] {
		kept += n
	}
	return &nas.Report{
		Name: "EP", Size: fmt.Sprint(1 << (p.m + 1)), Seconds: seconds, Operations: float64(int(2) << p.m),
		Checks: []nas.Check{
			{What: "sum of X", Got: sums[0], Want: p.sx, Tolerance: 1e-8}, {What: "sum of Y", Got: sums[1], Want: p.sy, Tolerance: 1e-8},
			{What: "pairs", Got: kept, Want: float64(p.kept)},
		},
	}, nil
}

// add counts the pairs of a batch, by the polar method.
func (t *tally) add(b int) {
	r := seed.After(2 * batch * b)
	for range batch {
		x := 2*r.Next() - 1
		y := 2*r.Next() - 1
		s := x*x + y*y
		if s > 1 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(s) / s)
		x, y = x*f, y*f
		t.Q[int(max(math.Abs(x), math.Abs(y)))]++
		t.SX += x
		t.SY += y
	}
}
