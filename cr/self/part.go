package self

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/cr/image"
)

// Distributed is a variable of which each rank has some rows. *dist.Array is one.
type Distributed interface {
	// Part is what this rank has of it. The rows stay the same ones.
	Part() Part
}

// Part is this rank's part of a Distributed variable.
type Part struct {
	Rows  int // of all ranks together
	Width int // elements of a row, at least 1
	First int // row of this rank
	Own   any // *[]T, T of fixed size: the elements of this rank's rows, one row after the other

	// Columns, of a block of a grid: its rows are not whole ones, but these columns of them, of Width elements each. The blocks of
	// the ranks follow each other along a row of blocks, then comes the next row of them. The zero Columns: rows are whole.
	Columns Columns
}

// Columns are some columns of each row.
type Columns struct {
	All   int // of a row
	First int
	Count int // at least 1
}

// Replicated is a variable that is the same on all ranks, at each Point: *Ptr. dist.Replicated makes one.
type Replicated struct{ Ptr any }

// window says which rows of a variable lie in one image, and which columns of them.
type window struct {
	rows, width  int
	first, count int
	cols         Columns // zero: whole rows
}

// Lengths of a window in an image: of rows, and of a block.
const (
	windowSize = 32
	blockSize  = 56
)

func (w *window) end() int { return w.first + w.count }

// columns is which columns the window has. A row that is not cut is one column.
func (w *window) columns() Columns {
	if w.cols == (Columns{}) {
		return Columns{All: 1, Count: 1}
	}
	return w.cols
}

func (c Columns) end() int { return c.First + c.Count }

// row is the number of elements that the window has of a row.
func (w *window) row() int { return w.columns().Count * w.width }

// follows reports whether w comes next after another rank's window.
func (w *window) follows(last *window) bool {
	c, l := w.columns(), last.columns()
	if l.end() == l.All {
		return w.first == last.end() && c.First == 0
	}
	return w.first == last.first && w.count == last.count && c.First == l.end()
}

// fits reports whether both are windows of one whole.
func (w *window) fits(x *window) bool {
	return w.rows == x.rows && w.width == x.width && w.columns().All == x.columns().All
}

// measure counts the rows that a Distributed variable has here.
func (v *variable) measure() error {
	if !isArray(v.plan) {
		return fmt.Errorf("%w: %v has no elements of a fixed size, of which rows could be made", ErrKind, v.plan.t)
	}
	w, n := v.win, sliceAt(*v).n
	if w.width < 1 || w.columns().Count < 1 || n%w.row() != 0 {
		return fmt.Errorf("%w: %d elements are no rows of %d", ErrKind, n, w.row())
	}
	w.count = n / w.row()
	return w.check()
}

// check returns an error if the rows are not some of all.
func (w *window) check() error {
	c := w.columns()
	if w.rows < 0 || w.width < 1 || w.first < 0 || w.count < 0 || w.first > w.rows || w.count > w.rows-w.first ||
		c.First < 0 || c.Count < 1 || c.First > c.All || c.Count > c.All-c.First || w.width > math.MaxInt/c.All {
		return fmt.Errorf("%w: rows %d to %d of %d, of %d elements", ErrKind, w.first, w.end(), w.rows, w.width)
	}
	return nil
}

func (w *window) encode(o order) []byte {
	var p []byte
	for _, n := range []int{w.rows, w.width, w.first, w.count} {
		p = o.AppendUint64(p, uint64(n))
	}
	if w.cols != (Columns{}) {
		for _, n := range []int{w.cols.All, w.cols.First, w.cols.Count} {
			p = o.AppendUint64(p, uint64(n))
		}
	}
	return p
}

func decodeWindow(p []byte, o order) (*window, error) {
	if len(p) != windowSize && len(p) != blockSize {
		return nil, fmt.Errorf("%w: a window of %d bytes", image.ErrCorrupt, len(p))
	}
	at := func(i int) int { return int(o.Uint64(p[8*i:])) }
	w := &window{rows: at(0), width: at(1), first: at(2), count: at(3)}
	if len(p) == blockSize {
		w.cols = Columns{at(4), at(5), at(6)}
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%w: %v", image.ErrCorrupt, err)
	}
	return w, nil
}

// String names the rows for people.
func (w *window) String() string {
	if c := w.cols; c != (Columns{}) {
		return fmt.Sprintf("rows %d to %d of %d, columns %d to %d of %d, with %d elements each", w.first, w.end(), w.rows, c.First, c.end(), c.All, w.width)
	}
	return fmt.Sprintf("rows %d to %d of %d with %d elements each", w.first, w.end(), w.rows, w.width)
}

// stretch is rows, or a block of them, that lie in one image and belong together on one rank.
type stretch struct {
	image    int // the rank that wrote it
	from, to int // first row, counted in the window of the image and in the one that is wanted
	rows     int

	left, right int // first column, likewise
	cols        int
}

// between returns what two windows have in common.
func between(w, want *window) (s stretch, some bool) {
	first, end := max(w.first, want.first), min(w.end(), want.end())
	c, d := w.columns(), want.columns()
	left, right := max(c.First, d.First), min(c.end(), d.end())
	s = stretch{from: first - w.first, to: first - want.first, rows: end - first, left: left - c.First, right: left - d.First, cols: right - left}
	return s, s.rows > 0 && s.cols > 0
}

// stretches finds where the rows of a window lie in n images, whose windows follow each other. at tells what an image has; it is asked
// for those that bisection comes by, and for those that have rows.
func stretches(n int, at func(i int) (*window, error), want *window) (all []stretch, err error) {
	lo, hi := 0, n // the first image that reaches beyond the first row is one of them
	for lo < hi && want.count > 0 {
		mid := (lo + hi) / 2
		w, err := at(mid)
		if err != nil {
			return nil, err
		}
		if w.end() > want.first {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	missing := want.count * want.columns().Count
	var last *window
	for i := lo; i < n && missing > 0; i++ {
		w, err := at(i)
		if err != nil {
			return nil, err
		}
		if last == nil && w.first > want.first || last != nil && !w.follows(last) {
			break
		}
		last = w
		if s, some := between(w, want); some {
			s.image = i
			all = append(all, s)
			missing -= s.rows * s.cols
		}
	}
	if missing > 0 {
		row := want.first
		if last != nil {
			row = max(row, min(last.end(), want.end()-1))
		}
		return nil, fmt.Errorf("%w: row %d is in none of %d images", image.ErrCorrupt, row, n)
	}
	return all, nil
}
