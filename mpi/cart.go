package mpi

import (
	"context"
	"fmt"
	"slices"
)

// Cart is a communicator whose ranks are the points of a grid. Ranks count along the last dimension first. Its
// neighbours are, for each dimension, the rank below and then the rank above: ProcNull beyond the end of a dimension
// that is not periodic. (MPI-4.1, chapter 8.5)
type Cart struct {
	*Comm
	dims     []int
	periodic []bool
	hood     neighbourhood
}

// Cart makes a grid of the first ranks of c, as many as it has points. Others get nil. All ranks of c call it with
// the same arguments. If reorder is true, ranks get other numbers in the grid where that brings more neighbours onto
// one node. Nodes are those that the program first began on: a restart of as many ranks makes the same grid, wherever they
// are now, so each finds its registered state and saved messages on its point. Other numbers of ranks get another
// grid. Errors: ErrDims; those of a portable image that cannot be read; as Allgather. (MPI-4.1, chapter
// 8.5.1, MPI_Cart_create)
func (c *Comm) Cart(dims []int, periodic []bool, reorder bool) (*Cart, error) {
	if err := c.joins(); err != nil {
		return nil, c.fail("Cart", err)
	}
	if c.inter != nil {
		return nil, c.fail("Cart", errInter)
	}
	points, wrong := gridOf(dims, periodic, c.size)
	mine := choice{Color: undefinedColor, Key: int64(c.rank), Agreed: agreed("cart", dims, periodic, reorder)}
	if wrong == nil && c.rank < points {
		mine.Color = 0
		if reorder {
			var at []int
			at, wrong = c.arranged(dims, periodic)
			mine.Key = int64(slices.Index(at, c.rank))
		}
	}
	d, err := c.split(kindCart, mine, wrong)
	if err != nil || d == nil {
		return nil, err
	}
	return newCart(d, slices.Clone(dims), slices.Clone(periodic)), nil
}

// gridOf returns the number of points of a grid.
func gridOf(dims []int, periodic []bool, most int) (int, error) {
	if len(dims) != len(periodic) {
		return 0, fmt.Errorf("%w: %d of them, and for %d it is told whether they are periodic", ErrDims, len(dims), len(periodic))
	}
	points := 1
	for _, d := range dims {
		if d < 1 || d > most/points {
			return 0, fmt.Errorf("%w: %v, for %d ranks", ErrDims, dims, most)
		}
		points *= d
	}
	return points, nil
}

func newCart(c *Comm, dims []int, periodic []bool) *Cart {
	t := &Cart{Comm: c, dims: dims, periodic: periodic}
	t.hood.c = c
	at := coordsOf(c.rank, dims)
	for d := range dims {
		below, above := t.step(at, d, -1), t.step(at, d, 1)
		t.hood.sources = append(t.hood.sources, below, above)
		// What goes up comes from below, also where both are the same rank.
		t.hood.order = append(t.hood.order, 2*d+1, 2*d)
	}
	t.hood.dests = t.hood.sources
	return t
}

// coordsOf returns the coordinates of a point, pointAt the point.
func coordsOf(point int, dims []int) []int {
	at := make([]int, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		at[d] = point % dims[d]
		point /= dims[d]
	}
	return at
}

func pointAt(at, dims []int) int {
	point := 0
	for d, x := range at {
		point = point*dims[d] + x
	}
	return point
}

// step returns the rank so far from a point along one dimension, or ProcNull.
func (t *Cart) step(at []int, d, by int) int {
	to, n := slices.Clone(at), t.dims[d]
	to[d] += by
	if to[d] < 0 || to[d] >= n {
		if !t.periodic[d] {
			return ProcNull
		}
		to[d] = (to[d]%n + n) % n
	}
	return pointAt(to, t.dims)
}

// nothing reports whether t is no grid.
func (t *Cart) nothing() bool { return t == nil || t.Comm.none() }

// check returns an error if t cannot be used.
func (t *Cart) check() error {
	if t.nothing() {
		return (*Comm)(nil).ready()
	}
	return t.ready()
}

// Dims returns the numbers of points of the dimensions. The slice is the caller's. (MPI-4.1, chapter 8.5.5,
// MPI_Cart_get)
func (t *Cart) Dims() []int {
	if t.nothing() {
		return nil
	}
	return slices.Clone(t.dims)
}

// Periodic returns which dimensions are periodic. The slice is the caller's. (MPI-4.1, chapter 8.5.5, MPI_Cart_get)
func (t *Cart) Periodic() []bool {
	if t.nothing() {
		return nil
	}
	return slices.Clone(t.periodic)
}

// Coords returns the coordinates of a rank. The slice is the caller's. Errors: ErrComm; ErrRank. (MPI-4.1, chapter
// 8.5.5)
func (t *Cart) Coords(rank int) ([]int, error) {
	err := t.check()
	if err == nil && uint(rank) >= uint(t.size) {
		err = fmt.Errorf("%w: %d", ErrRank, rank)
	}
	if err != nil {
		return nil, t.wrong("Coords", err)
	}
	return coordsOf(rank, t.dims), nil
}

// wrong is Comm.fail, also for no grid.
func (t *Cart) wrong(call string, err error) error {
	if t.nothing() {
		return (*Comm)(nil).fail(call, err)
	}
	return t.fail(call, err)
}

// RankAt returns the rank at coordinates. In a periodic dimension they count modulo its length. Beyond the end of
// another there is nobody: ProcNull. Errors: ErrComm; ErrDims if there are too few or too many. (MPI-4.1, chapter
// 8.5.5, MPI_Cart_rank)
func (t *Cart) RankAt(coords ...int) (int, error) {
	err := t.check()
	if err == nil && len(coords) != len(t.dims) {
		err = fmt.Errorf("%w: %d coordinates in %d dimensions", ErrDims, len(coords), len(t.dims))
	}
	if err != nil {
		return Undefined, t.wrong("RankAt", err)
	}
	at := slices.Clone(coords)
	for d, n := range t.dims {
		if at[d] < 0 || at[d] >= n {
			if !t.periodic[d] {
				return ProcNull, nil
			}
			at[d] = (at[d]%n + n) % n
		}
	}
	return pointAt(at, t.dims), nil
}

// Shift returns the partners of a shift by so many points along a dimension: where this rank receives from, and
// where it sends to. Either may be ProcNull. Errors: ErrComm; ErrDims if there is no such dimension. (MPI-4.1,
// chapter 8.5.6)
func (t *Cart) Shift(dim, by int) (src, dst int, err error) {
	if err = t.check(); err == nil && uint(dim) >= uint(len(t.dims)) {
		err = fmt.Errorf("%w: dimension %d of %d", ErrDims, dim, len(t.dims))
	}
	if err != nil {
		return ProcNull, ProcNull, t.wrong("Shift", err)
	}
	at := coordsOf(t.rank, t.dims)
	return t.step(at, dim, -by), t.step(at, dim, by), nil
}

// Sub makes grids of the dimensions that remain: one for each place along the others. All ranks of t call it with the
// same argument. Errors: ErrDims if remain has not one value for each dimension; as Allgather. (MPI-4.1, chapter
// 8.5.7)
func (t *Cart) Sub(remain []bool) (*Cart, error) {
	if err := t.check(); err != nil {
		return nil, t.wrong("Sub", err)
	}
	if len(remain) != len(t.dims) {
		_, err := t.split(kindCart, choice{}, fmt.Errorf("%w: %d values for %d dimensions", ErrDims, len(remain), len(t.dims)))
		return nil, err
	}
	var dims, at, others, place []int
	var periodic []bool
	for d, x := range coordsOf(t.rank, t.dims) {
		if remain[d] {
			dims, at, periodic = append(dims, t.dims[d]), append(at, x), append(periodic, t.periodic[d])
		} else {
			others, place = append(others, t.dims[d]), append(place, x)
		}
	}
	c, err := t.split(kindCart, choice{Color: int64(pointAt(place, others)), Key: int64(pointAt(at, dims)), Agreed: agreed("sub", remain)}, nil)
	if err != nil {
		return nil, err
	}
	return newCart(c, dims, periodic), nil
}

// Dup is Comm.Dup, and the duplicate is the same grid. Errors: ErrComm. (MPI-4.1, chapter 7.4.2)
func (t *Cart) Dup() (*Cart, error) {
	if err := t.check(); err != nil {
		return nil, t.wrong("Dup", err)
	}
	c, err := t.Comm.Dup()
	if err != nil {
		return nil, err
	}
	return newCart(c, t.dims, t.periodic), nil
}

// WithContext is Comm.WithContext, and the view is the same grid.
func (t *Cart) WithContext(ctx context.Context) *Cart {
	if t.nothing() {
		return t
	}
	return newCart(t.Comm.WithContext(ctx), t.dims, t.periodic)
}
