// Bt is the NAS benchmark BT: implicit steps for the equations of a flow, with systems of equations along each line
// whose blocks are three diagonals (RNR-94-007, section 3.4.1, and NAS-95-020).
//
//	gorun -np 4 -cr ./examples/apps/npb/bt A
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
	'S': {N: 12, Steps: 60, DT: 0.010,
		Residuals: flow.Vec{1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02, 2.6436421275166801e-02, 1.9211784131744430e-01},
		Error:     flow.Vec{4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05, 7.3821238632439731e-05, 8.9269630987491446e-04}},
	'W': {N: 24, Steps: 200, DT: 0.0008,
		Residuals: flow.Vec{0.1125590409344e+03, 0.1180007595731e+02, 0.2710329767846e+02, 0.2469174937669e+02, 0.2638427874317e+03},
		Error:     flow.Vec{0.4419655736008e+01, 0.4638531260002e+00, 0.1011551749967e+01, 0.9235878729944e+00, 0.1018045837718e+02}},
	'A': {N: 64, Steps: 200, DT: 0.0008,
		Residuals: flow.Vec{1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01, 2.3665622544678910e+01, 2.5278963211748344e+02},
		Error:     flow.Vec{4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01, 8.8302063039765474e-01, 9.7379901770829278e+00}},
	'B': {N: 102, Steps: 200, DT: 0.0003,
		Residuals: flow.Vec{1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02, 3.2485447959084092e+02, 3.2707541254659363e+03},
		Error:     flow.Vec{5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01, 1.2006925323559144e+01, 1.2459576151035986e+02}},
}

func main() { nas.Main(bt) }

func bt(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	n := float64(p.N)
	return adi.Run(c, "BT", p, 3478.8*n*n*n-17655.7*n*n+28023.7*n, newBlocks)
}
