// Lu is the NAS benchmark LU: symmetric successive over-relaxation for the equations of a flow (RNR-94-007, section
// 3.4.4, and NAS-95-020).
//
//	gorun -np 4 -cr ./examples/apps/npb/lu A
//
// The ranks have columns of the cube, on a grid of any size that leaves each two points. The sweeps cross this grid as
// a wave. A rank's state is its part of the flow.
package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// problem is that of a class, with the published norms of the residual and the error, and the published integral.
type problem struct {
	n, steps         int
	dt               float64
	residuals, error flow.Vec
	integral         float64
}

var problems = map[nas.Class]problem{
	'S': {12, 50, 0.5,
		flow.Vec{1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03, 1.5029584435994323e-03, 3.4264073155896461e-02},
		flow.Vec{6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05, 5.8474222595157350e-05, 1.3103347914111294e-03},
		7.8418928865937083e+00},
	'W': {33, 300, 1.5e-3,
		flow.Vec{0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01, 0.2826799444189e+02},
		flow.Vec{0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01, 0.1084277417792e+01},
		0.1161399311023e+02},
	'A': {64, 250, 2,
		flow.Vec{7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02, 1.7845301160418537e+02, 1.8384760349464247e+03},
		flow.Vec{2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00, 6.7139225687777051e+00, 7.0715315688392578e+01},
		2.6030925604886277e+01},
	'B': {102, 250, 2,
		flow.Vec{3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02, 7.7812774739425265e+02, 7.3087969592545314e+03},
		flow.Vec{1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01, 2.5905394567832939e+01, 2.6054907504857413e+02},
		4.7887162703308227e+01},
}

const relaxation = 1.2

func main() { nas.Main(lu) }

func lu(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	g, err := flow.NewGrid(c, p.n)
	if err != nil {
		return nil, err
	}
	u := g.Initial()
	loop, err := nas.NewLoop(c, map[string]any{"u": &u})
	if err != nil {
		return nil, err
	}
	halo, err := g.Halo(u)
	if err != nil {
		return nil, err
	}
	v := g.Array()
	rates := func() error {
		err := halo.Exchange()
		g.Rates(u, v)
		return err
	}
	if err := rates(); err != nil {
		return nil, err
	}
	s := newSweeper(g, v, p.dt)
	seconds, err := loop.Run(p.steps, func(int) error {
		if err := s.relax(); err != nil {
			return err
		}
		g.Lines(func(first, last int) {
			for i := first; i <= last; i++ {
				for m, x := range v[i] {
					u[i][m] += x / (relaxation * (2 - relaxation))
				}
			}
		})
		return rates()
	})
	if err != nil {
		return nil, err
	}
	return report(g, p, u, v, seconds)
}

func report(g *flow.Grid, p problem, u, v []flow.Vec, seconds float64) (*nas.Report, error) {
	residuals, err := g.Norms(v)
	if err != nil {
		return nil, err
	}
	errors, err := g.Errors(u)
	if err != nil {
		return nil, err
	}
	sum, err := integral(g)
	n := float64(p.n)
	r := &nas.Report{
		Name: "LU", Size: fmt.Sprintf("%dx%dx%d", p.n, p.n, p.n), Iterations: p.steps, Seconds: seconds,
		Operations: float64(p.steps) * (1984.77*n*n*n - 10923.3*n*n + 27770.9*n - 144010),
		Checks:     append(flow.Checks("residual", residuals, p.residuals), flow.Checks("error", errors, p.error)...),
	}
	r.Checks = append(r.Checks, nas.Check{What: "surface integral", Got: sum, Want: p.integral, Tolerance: 1e-8})
	return r, err
}

// integral returns that of the pressure over the faces of a box within the cube, by the trapezoidal rule.
func integral(g *flow.Grid) (float64, error) {
	low, high := [3]int{1, 1, 2}, [3]int{g.N - 2, g.N - 3, g.N - 2}
	sum := 0.0
	for z := g.Low[2]; z < g.High[2]; z++ {
		for y := g.Low[1]; y < g.High[1]; y++ {
			for x := g.Low[0]; x < g.High[0]; x++ {
				at := [3]int{g.From[0] + x, g.From[1] + y, g.From[2] + z}
				sum += weight(at, low, high) * g.Primitive(g.At(x, y, z)).P
			}
		}
	}
	return mpi.AllreduceValue(g.T.Comm, 0.25*g.H*g.H*sum, mpi.Sum)
}

// weight is the number of squares on the faces that have a point as their corner.
func weight(at, low, high [3]int) float64 {
	squares := 0
	for d := range 3 {
		if at[d] != low[d] && at[d] != high[d] {
			continue
		}
		n := 1
		for e := range 3 {
			switch {
			case e == d:
			case at[e] < low[e] || at[e] > high[e]:
				n = 0
			case at[e] > low[e] && at[e] < high[e]:
				n *= 2
			}
		}
		squares += n
	}
	return float64(squares)
}
