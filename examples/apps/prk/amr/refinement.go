package main

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/prk/internal/star"
	"github.com/gorun-mpi/gorun/mpi"
)

// refinement is a rank's part of a finer grid, and the ranks that share it.
type refinement struct {
	c    *mpi.Comm
	fine *star.Field
}

// sample is the value of a point of the part that is refined.
type sample struct {
	At    int
	Value float64
}

// newRefinement makes a finer grid of a corner. It returns nil on ranks that have no point there.
func newRefinement(f *star.Field, o *options, round int) (*refinement, error) {
	row, col := o.corner(round)
	ranks, err := f.Holders(row, col, o.edge)
	if err != nil {
		return nil, err
	}
	group, err := f.Ranks().Group().Include(ranks...)
	if err != nil || group.Rank() == mpi.Undefined {
		return nil, err
	}
	c, err := f.Ranks().CreateGroup(group, 0)
	if err != nil {
		return nil, err
	}
	var mine []sample
	for i := max(row, f.Row); i < min(row+o.edge, f.Row+f.Rows); i++ {
		for j := max(col, f.Col); j < min(col+o.edge, f.Col+f.Cols); j++ {
			mine = append(mine, sample{(i-row)*o.edge + j - col, f.In[f.At(i-f.Row, j-f.Col)]})
		}
	}
	all, _, err := mpi.AllgatherAlloc(c, mine)
	if err != nil {
		return nil, err
	}
	coarse := make([]float64, o.edge*o.edge)
	for _, s := range all {
		coarse[s.At] = s.Value
	}
	scale := 1 << o.level
	fine, err := star.New(c, o.fine(), o.radius, 1/float64(scale), func(i, j int) float64 {
		return between(coarse, o.edge, float64(i)/float64(scale), float64(j)/float64(scale))
	})
	return &refinement{c, fine}, err
}

// between interpolates linearly in both directions.
func between(v []float64, edge int, y, x float64) float64 {
	i, j := min(int(y), edge-2), min(int(x), edge-2)
	y, x = y-float64(i), x-float64(j)
	a, b := v[i*edge+j:], v[(i+1)*edge+j:]
	return (1-y)*((1-x)*a[0]+x*a[1]) + y*((1-x)*b[0]+x*b[1])
}

// values tells whether a point of the finer grid has another value than it must have: what the grid had there when it
// was refined, and 1 for each iteration since.
func (r *refinement) values(o *options, round int) error {
	row, col := o.corner(round)
	added := float64(row + col + round*o.period + o.life*o.sub)
	for i := range r.fine.Rows {
		for j := range r.fine.Cols {
			want := added + float64(r.fine.Row+i+r.fine.Col+j)/float64(int(1)<<o.level)
			if got := r.fine.In[r.fine.At(i, j)]; !(math.Abs(got-want) <= 1e-8*want) {
				return fmt.Errorf("point (%d, %d) is %v, not %v", r.fine.Row+i, r.fine.Col+j, got, want)
			}
		}
	}
	return nil
}
