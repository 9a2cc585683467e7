package dist

import (
	"fmt"
	"reflect"

	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/mpi"
)

// Grid is a plane of elements, rows by columns, of which each rank of a two-dimensional mpi.Cart has a block, with a halo around it.
// Like an Array it may be restored by any number of ranks. One goroutine at a time uses the block of a rank.
type Grid[T any] struct {
	t          *mpi.Cart
	rows, cols Rows // of the rows and columns of the Cart
	y, x       int  // own block in the Cart
	width      int  // of the halo
	packed     []T  // the block without halo, as an image has it; nil before Image
	block[T]
}

// block is the memory of a rank, and the exchange that is bound to it.
type block[T any] struct {
	mem  []T // with the halo
	halo *mpi.Halo[T]
	r    mpi.Request // of Start
	on   bool        // it was not waited for
}

// NewGrid makes a Grid of so many rows and columns, all elements zero, with a halo of so many elements on each side. All ranks of t
// call it with the same arguments; it sends nothing. Blocks are as even as possible. A restart with another number of ranks makes its
// Cart of all ranks in their order: with reorder false. T is of fixed size. Errors: ErrRows if a block would be empty, or narrower
// than the halo; mpi.ErrDims if t has not two dimensions; mpi.ErrComm; mpi.ErrType.
func NewGrid[T any](t *mpi.Cart, rows, cols, halo int) (*Grid[T], error) {
	if t == nil || t.Comm == nil {
		return nil, fmt.Errorf("%w: no grid of ranks: make one with Comm.Cart, of as many points as there are ranks", mpi.ErrComm)
	}
	dims := t.Dims()
	if len(dims) != 2 {
		return nil, fmt.Errorf("%w: a Grid lies on a Cart of two dimensions, this one has %d", mpi.ErrDims, len(dims))
	}
	if least := max(halo, 1); halo < 0 || rows/dims[0] < least || cols/dims[1] < least {
		return nil, fmt.Errorf("%w: %d x %d elements on %d x %d ranks with a halo of %d", ErrRows, rows, cols, dims[0], dims[1], halo)
	}
	at, err := t.Coords(t.Rank())
	if err != nil {
		return nil, err
	}
	if _, err := mpi.RecvInit(t.Comm, []T{}, mpi.ProcNull, 0); err != nil { // of what T can be, with a halo or without
		return nil, err
	}
	g := &Grid[T]{t: t, rows: Even(rows, dims[0]), cols: Even(cols, dims[1]), y: at[0], x: at[1], width: halo}
	h, w := g.size()
	g.mem = make([]T, (h+2*halo)*(w+2*halo))
	if halo > 0 {
		g.halo, err = mpi.NewHalo(t, g.mem, []int{h + 2*halo, w + 2*halo}, halo, true)
	}
	return g, err
}

// size is the number of own rows and columns.
func (g *Grid[T]) size() (h, w int) {
	first, end := g.rows.Of(g.y)
	left, right := g.cols.Of(g.x)
	return end - first, right - left
}

// Rows returns the rows of this rank, first <= i < end.
func (g *Grid[T]) Rows() (first, end int) { return g.rows.Of(g.y) }

// Columns returns the columns of this rank, first <= j < end.
func (g *Grid[T]) Columns() (first, end int) { return g.cols.Of(g.x) }

// Row returns the elements that this rank has of a row of its own or of its halo, by the row's number among all: first those of the
// halo on the left, then the rank's columns, then the halo on the right. It is the Grid's memory, until Swap. Row panics if this rank
// has no such row.
func (g *Grid[T]) Row(i int) []T {
	first, end := g.Rows()
	if i < first-g.width || i >= end+g.width {
		panic(fmt.Sprintf("dist: row %d on a rank that has rows %d to %d and a halo of %d", i, first, end, g.width))
	}
	_, w := g.size()
	w += 2 * g.width
	from := (i - first + g.width) * w
	return g.mem[from : from+w : from+w]
}

// Own returns the rank's own columns of one of its rows. It is the Grid's memory, until Swap. Own panics if this rank has no such row.
func (g *Grid[T]) Own(i int) []T {
	if first, end := g.Rows(); i < first || i >= end {
		panic(fmt.Sprintf("dist: row %d on a rank that has rows %d to %d", i, first, end))
	}
	_, w := g.size()
	return g.Row(i)[g.width : g.width+w : g.width+w]
}

// Exchange fills the halo, with its corners, with what the neighbours have. What lies beyond the end of a dimension that is not
// periodic is the program's, and stays. All ranks call it, in the order of the Cart's collectives. Errors: as Start and Wait.
func (g *Grid[T]) Exchange() error {
	if err := g.Start(); err != nil {
		return err
	}
	return g.Wait()
}

// Start begins an Exchange. Until Wait the program leaves the halo alone, and does not write to elements that others have in theirs.
// No Point may lie between. Errors: ErrActive; as mpi.Halo.Start.
func (g *Grid[T]) Start() (err error) {
	switch {
	case g.on:
		return ErrActive
	case g.halo == nil:
		g.on = true
		return nil
	}
	g.r, err = g.halo.Start()
	g.on = err == nil
	return err
}

// Wait ends what Start has begun. Errors: as mpi.Request.Wait.
func (g *Grid[T]) Wait() error {
	g.on = false
	r := g.r
	g.r = mpi.Request{}
	_, err := r.Wait()
	return err
}

// Swap exchanges the blocks and halos of two Grids of the same size on the same Cart, without copying, as Array.Swap does. Errors:
// ErrRows if they are not alike; ErrActive.
func (g *Grid[T]) Swap(b *Grid[T]) error {
	switch {
	case g.t != b.t || g.width != b.width || g.rows.Total() != b.rows.Total() || g.cols.Total() != b.cols.Total():
		return fmt.Errorf("%w: Swap of Grids that are distributed in different ways", ErrRows)
	case g.on || b.on:
		return ErrActive
	}
	g.block, b.block = b.block, g.block
	return nil
}

// pack copies the block without its halo.
func (g *Grid[T]) pack(to []T) {
	_, w := g.size()
	for first, end := g.Rows(); first < end; first++ {
		copy(to, g.Own(first))
		to = to[w:]
	}
}

// Gather returns all elements on one rank, row after row, and nil on the others. All ranks call it. The caller owns them. Errors: as
// mpi.Gatherv.
func (g *Grid[T]) Gather(root int) ([]T, error) {
	h, w := g.size()
	mine := make([]T, h*w)
	g.pack(mine)
	var blocks []T
	var counts []int
	if g.t.Rank() == root {
		blocks = make([]T, g.rows.Total()*g.cols.Total())
		for rank := range g.t.Size() {
			at, err := g.t.Coords(rank)
			if err != nil {
				return nil, err
			}
			first, end := g.rows.Of(at[0])
			left, right := g.cols.Of(at[1])
			counts = append(counts, (end-first)*(right-left))
		}
	}
	if err := mpi.Gatherv(g.t.Comm, mine, blocks, counts, nil, root); err != nil || blocks == nil {
		return nil, err
	}
	return g.lay(blocks), nil
}

// lay puts the blocks of all ranks where they belong. Ranks count along the columns first.
func (g *Grid[T]) lay(blocks []T) []T {
	n := g.cols.Total()
	all := make([]T, len(blocks))
	for y := range len(g.rows) - 1 {
		for x := range len(g.cols) - 1 {
			left, right := g.cols.Of(x)
			for i, end := g.rows.Of(y); i < end; i++ {
				copy(all[i*n+left:i*n+right], blocks)
				blocks = blocks[right-left:]
			}
		}
	}
	return all
}

// Image is for cr.Register: what this rank has, by the numbers of rows and columns. The halo is not saved: exchange it before its
// first use. A registered Grid has a copy of its block, for images.
func (g *Grid[T]) Image() (ptr any, fetch, restored func() error) {
	h, w := g.size()
	if g.packed == nil {
		g.packed = make([]T, h*w)
	}
	first, _ := g.Rows()
	left, _ := g.Columns()
	part := self.Part{Rows: g.rows.Total(), Width: 1, First: first, Own: &g.packed, Columns: self.Columns{All: g.cols.Total(), First: left, Count: w}}
	fetch = func() error {
		g.pack(g.packed)
		return nil
	}
	restored = func() error {
		for i := range h {
			copy(g.Own(first+i), g.packed[i*w:])
		}
		return nil
	}
	return partOf(part), fetch, restored
}

// String names type and size.
func (g *Grid[T]) String() string {
	first, end := g.Rows()
	left, right := g.Columns()
	return fmt.Sprintf("dist.Grid[%v] of %d x %d, here rows %d to %d, columns %d to %d", reflect.TypeFor[T](), g.rows.Total(), g.cols.Total(), first, end, left, right)
}
