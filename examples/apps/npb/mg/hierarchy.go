package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// hierarchy is a row of grids, each with half as many points along an edge as the next. The coarsest has two; where ranks
// would get less than that, below is a hierarchy of whole grids, the finest of which is as coarse as the first one
// here.
type hierarchy struct {
	levels []*level
	below  *hierarchy
	whole  func() error // fills the finest residual below with the parts of the first one here
}

// newHierarchy makes the grids up to that of n points along an edge, of which this rank has b, and the solution u.
func newHierarchy(t *mpi.Cart, loop *nas.Loop, n int, b box, u []float64) (*hierarchy, error) {
	h := new(hierarchy)
	coarsest := 2
	if most := t.Dims()[0]; most > 1 {
		coarsest = most
	}
	for m := coarsest; m <= n; m *= 2 {
		part, err := partOf(t, m)
		if err != nil {
			return nil, err
		}
		own := u
		if m < n {
			own = part.array()
		}
		l := newLevel(part, own)
		if err := l.between(t, loop); err != nil {
			return nil, err
		}
		h.levels = append(h.levels, l)
	}
	if t.Size() > 1 {
		h.below = whole(coarsest)
		return h, h.join(t, loop)
	}
	return h, nil
}

// whole makes the grids up to that of n points along an edge, all of them on this rank.
func whole(n int) *hierarchy {
	h := new(hierarchy)
	for m := 2; m <= n; m *= 2 {
		b := box{size: [3]int{m, m, m}}
		l := newLevel(b, b.array())
		l.aroundU = func() error { b.wrap(l.u); return nil }
		l.aroundR = func() error { b.wrap(l.r); return nil }
		h.levels = append(h.levels, l)
	}
	return h
}

// wrap fills the ghost cells of a whole grid.
func (b box) wrap(a []float64) {
	n := b.size[0]
	for z := 1; z <= n; z++ {
		for y := 1; y <= n; y++ {
			row := b.row(a, z, y)
			row[0], row[n+1] = row[n], row[1]
		}
		copy(b.row(a, z, 0), b.row(a, z, n))
		copy(b.row(a, z, n+1), b.row(a, z, 1))
	}
	plane := (n + 2) * (n + 2)
	copy(a[:plane], a[n*plane:(n+1)*plane])
	copy(a[(n+1)*plane:], a[plane:2*plane])
}

// join has whole gather the parts of the coarsest residual that is cut.
func (h *hierarchy) join(t *mpi.Cart, loop *nas.Loop) error {
	part, top := h.levels[0], h.below.levels[len(h.below.levels)-1]
	boxes, err := mpi.AllgatherObjects(t.Comm, part.from)
	if err != nil {
		return err
	}
	own := make([]float64, part.size[0]*part.size[1]*part.size[2])
	all := make([]float64, len(own)*t.Size())
	h.whole = func() error {
		part.copyOut(part.r, own)
		if err := loop.Outside(func() error { return mpi.Allgather(t.Comm, own, all) }); err != nil {
			return err
		}
		for i, from := range boxes {
			part.copyIn(all[i*len(own):], top, from)
		}
		return top.aroundR()
	}
	return nil
}

// copyOut packs what an array has without its ghosts.
func (b box) copyOut(a, to []float64) {
	for z := range b.size[0] {
		for y := range b.size[1] {
			to = to[copy(to, b.row(a, z+1, y+1)[1:b.size[2]+1]):]
		}
	}
}

// copyIn puts packed residuals of a part of this size to their place in a whole grid.
func (b box) copyIn(from []float64, to *level, at [3]int) {
	for z := range b.size[0] {
		for y := range b.size[1] {
			row := to.row(to.r, at[0]+z+1, at[1]+y+1)[at[2]+1:]
			from = from[copy(row[:b.size[2]], from):]
		}
	}
}

// cycle improves u of the finest grid by a V-cycle. v is the right-hand side; nil: r, for a correction that begins with 0.
func (h *hierarchy) cycle(v []float64, w [3]float64) error {
	for k := len(h.levels) - 1; k > 0; k-- {
		if err := h.levels[k].restrict(h.levels[k-1]); err != nil {
			return err
		}
	}
	if err := h.coarsest(w); err != nil {
		return err
	}
	for k, l := range h.levels[1:] {
		right := v
		if k+2 < len(h.levels) || v == nil {
			right = l.r
			clear(l.u)
		}
		l.prolong(h.levels[k])
		if err := l.residual(right); err != nil {
			return err
		}
		if err := l.smooth(w); err != nil {
			return err
		}
	}
	return nil
}

// coarsest finds the correction of the first grid.
func (h *hierarchy) coarsest(w [3]float64) error {
	first := h.levels[0]
	if h.below == nil {
		clear(first.u)
		return first.smooth(w)
	}
	if err := h.whole(); err != nil {
		return err
	}
	if err := h.below.cycle(nil, w); err != nil {
		return err
	}
	top := h.below.levels[len(h.below.levels)-1]
	for z := range first.size[0] + 2 {
		for y := range first.size[1] + 2 {
			copy(first.row(first.u, z, y), top.row(top.u, first.from[0]+z, first.from[1]+y)[first.from[2]:])
		}
	}
	return nil
}
