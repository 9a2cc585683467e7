// Sp is the NAS benchmark SP: implicit steps for the equations of a flow, whose Jacobians are made diagonal, so that
// each line is five systems of equations with five diagonals (RNR-94-007, section 3.4.2, and NAS-95-020).
//
//	gorun -np 4 -cr ./examples/apps/npb/sp A
//
// The ranks have columns of the cube, on a grid of any size that leaves each two points. A rank's state is its part of
// the flow.
package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/adi"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

var problems = map[nas.Class]adi.Problem{
	'S': {N: 12, Steps: 100, DT: 0.015,
		Residuals: flow.Vec{2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02, 1.5840557224455615e-02, 3.4849040609362460e-02},
		Error:     flow.Vec{2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05, 1.5750704994480102e-05, 3.4177666183390531e-05}},
	'W': {N: 36, Steps: 400, DT: 0.0015,
		Residuals: flow.Vec{0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03, 0.3143611161242e-02},
		Error:     flow.Vec{0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04, 0.1212845639773e-03}},
	'A': {N: 64, Steps: 400, DT: 0.0015,
		Residuals: flow.Vec{2.4799822399300195e+00, 1.1276337964368832e+00, 1.5028977888770491e+00, 1.4217816211695179e+00, 2.1292113035138280e+00},
		Error:     flow.Vec{1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05, 4.7671093939528255e-05, 1.3621613399213001e-04}},
	'B': {N: 102, Steps: 400, DT: 0.001,
		Residuals: flow.Vec{0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02, 0.5643482272596e+02},
		Error:     flow.Vec{0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02, 0.1847456263981e-01}},
}

func main() { nas.Main(sp) }

func sp(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	n := float64(p.N)
	return adi.Run(c, "SP", p, 881.174*n*n*n-4683.91*n*n+11484.5*n-19272.4, newScalars)
}
