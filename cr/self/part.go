package self

import (
	"fmt"

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
}

// Replicated is a variable that is the same on all ranks, at each Point: *Ptr. dist.Replicated makes one.
type Replicated struct{ Ptr any }

// window says which rows of a variable lie in one image.
type window struct {
	rows, width  int
	first, count int
}

// windowSize is the length of a window in an image.
const windowSize = 32

func (w *window) end() int { return w.first + w.count }

// measure counts the rows that a Distributed variable has here.
func (v *variable) measure() error {
	if !isArray(v.plan) {
		return fmt.Errorf("%w: %v has no elements of a fixed size, of which rows could be made", ErrKind, v.plan.t)
	}
	w, n := v.win, sliceAt(*v).n
	if w.width < 1 || n%w.width != 0 {
		return fmt.Errorf("%w: %d elements are no rows of %d", ErrKind, n, w.width)
	}
	w.count = n / w.width
	return w.check()
}

// check returns an error if the rows are not some of all.
func (w *window) check() error {
	if w.rows < 0 || w.width < 1 || w.first < 0 || w.count < 0 || w.first > w.rows || w.count > w.rows-w.first {
		return fmt.Errorf("%w: rows %d to %d of %d, of %d elements", ErrKind, w.first, w.end(), w.rows, w.width)
	}
	return nil
}

func (w *window) encode(o order) []byte {
	var p []byte
	for _, n := range []int{w.rows, w.width, w.first, w.count} {
		p = o.AppendUint64(p, uint64(n))
	}
	return p
}

func decodeWindow(p []byte, o order) (*window, error) {
	if len(p) != windowSize {
		return nil, fmt.Errorf("%w: a window of %d bytes", image.ErrCorrupt, len(p))
	}
	at := func(i int) int { return int(o.Uint64(p[8*i:])) }
	w := &window{rows: at(0), width: at(1), first: at(2), count: at(3)}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%w: %v", image.ErrCorrupt, err)
	}
	return w, nil
}

// String names the rows for people.
func (w *window) String() string {
	return fmt.Sprintf("rows %d to %d of %d with %d elements each", w.first, w.end(), w.rows, w.width)
}

// stretch is rows that lie in one image and belong together on one rank.
type stretch struct {
	image    int // the rank that wrote it
	from, to int // first row, counted in the window of the image and in the one that is wanted
	rows     int
}

// stretches finds where the rows of a window lie in n images. at tells what an image has; it is asked for those that
// bisection comes by, and for those that have rows.
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
	next := want.first
	for i := lo; i < n && next < want.end(); i++ {
		w, err := at(i)
		if err != nil {
			return nil, err
		}
		if w.first > next || w.end() < next {
			break
		}
		if k := min(w.end(), want.end()) - next; k > 0 {
			all = append(all, stretch{i, next - w.first, next - want.first, k})
			next += k
		}
	}
	if next < want.end() {
		return nil, fmt.Errorf("%w: row %d is in none of %d images", image.ErrCorrupt, next, n)
	}
	return all, nil
}
