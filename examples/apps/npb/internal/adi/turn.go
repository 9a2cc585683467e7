package adi

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
	"github.com/gorun-mpi/gorun/mpi"
)

// turn exchanges points within the ranks along y or z, so that each has whole lines in that direction for a part of x:
//
//	before  [z][y][x], with ghost cells; this rank's y and z
//	turned  [z][y][x], without; this rank's part of x, all of y or z
type turn struct {
	*flow.Grid
	d            int
	ranks        *mpi.Comm
	from, size   [3]int // this rank's points when they are turned: x and the two others
	stride       [3]int
	u, r         []flow.Vec
	here, turned []mpi.Layout // what each of the ranks has of the other's: here, and when it is turned
}

// newTurn prepares the exchange for lines along d. It returns nil if the rank has them whole.
func newTurn(g *flow.Grid, d int) (*turn, error) {
	along := []bool{false, false, false}
	along[2-d] = true
	row, err := g.T.Sub(along)
	if err != nil || row.Size() == 1 {
		return nil, err
	}
	t := &turn{Grid: g, d: d, ranks: row.Comm, from: g.From, size: g.Size}
	t.from[d], t.size[d] = 0, g.N
	t.from[0], t.size[0] = flow.Share(g.N, row.Size(), row.Rank())
	t.stride = [3]int{1, t.size[0], t.size[0] * t.size[1]}
	t.u, t.r = make([]flow.Vec, t.stride[2]*t.size[2]), make([]flow.Vec, t.stride[2]*t.size[2])
	for rank := range row.Size() {
		x, nx := flow.Share(g.N, row.Size(), rank)
		sub, start := []int{g.Size[2], g.Size[1], nx}, g.Start()
		start[2] += x
		t.here = append(t.here, mpi.Subarray(g.Dims(), sub, start))

		from, n := flow.Share(g.N, row.Size(), rank)
		sub, start = []int{t.size[2], t.size[1], t.size[0]}, []int{0, 0, 0}
		sub[2-d], start[2-d] = n, from
		t.turned = append(t.turned, mpi.Subarray([]int{t.size[2], t.size[1], t.size[0]}, sub, start))
	}
	return t, nil
}

// views picks from a what each rank has.
func views(a []flow.Vec, layouts []mpi.Layout) []mpi.View[flow.Vec] {
	v := make([]mpi.View[flow.Vec], len(layouts))
	for i, l := range layouts {
		v[i] = mpi.View[flow.Vec]{Data: a, Layout: l}
	}
	return v
}

// solve replaces r by the solution of all lines.
func (t *turn) solve(m Method, u, r []flow.Vec) error {
	if err := mpi.Alltoallw(t.ranks, views(u, t.here), views(t.u, t.turned)); err != nil {
		return err
	}
	if err := mpi.Alltoallw(t.ranks, views(r, t.here), views(t.r, t.turned)); err != nil {
		return err
	}
	other := 3 - t.d
	for j := range t.size[other] {
		for i := range t.size[0] {
			if t.face(0, i) || t.face(other, j) {
				continue
			}
			p := i*t.stride[0] + j*t.stride[other]
			m.Line(t.d, t.u[p:], t.r[p:], t.stride[t.d])
		}
	}
	return mpi.Alltoallw(t.ranks, views(t.r, t.turned), views(r, t.here))
}

// face tells whether a point is at a face of the cube.
func (t *turn) face(d, i int) bool {
	i += t.from[d]
	return i == 0 || i == t.N-1
}
