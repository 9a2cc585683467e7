package mpi

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// rows is the elements of several views in a row, one view after the other.
type rows[T any] struct {
	blocks
	views []View[T]
	row   []T
	mem   *scratch
}

// rowsOf checks the views, one for each of n ranks, and returns memory for their elements. Where peers has ProcNull, the view
// is not looked at.
func rowsOf[T any](role string, views []View[T], n int, peers []int, written bool) (*rows[T], error) {
	r := new(rows[T])
	if _, err := elem[T](); err != nil {
		return r, err
	}
	if len(views) != n {
		return r, fmt.Errorf("%w: %d views in %s for %d ranks", ErrCount, len(views), role, n)
	}
	counts, total := make([]int, n), 0
	for i := range views {
		if peers != nil && peers[i] == ProcNull {
			continue
		}
		if err := views[i].check(written); err != nil {
			return r, fmt.Errorf("%s[%d]: %w", role, i, err)
		}
		counts[i] = views[i].Layout.size
		total += counts[i]
	}
	if err := tooLong[T](total); err != nil {
		return r, fmt.Errorf("%s: %w", role, err)
	}
	b, err := explicit(role, n, total, counts, nil, make([]int, n))
	if err != nil {
		return r, err
	}
	row, s := borrowSlice[T](total)
	return &rows[T]{b, views, row, s}, nil
}

// pack copies the views' elements to the row.
func (r *rows[T]) pack() {
	for i, n := range r.counts {
		if lo := r.displs[i]; n > 0 {
			pack(&r.views[i].Layout.body, r.row[lo:lo+n], r.views[i].Data, 0)
		}
	}
}

// unpack copies the row to the views' elements.
func (r *rows[T]) unpack() {
	for i, n := range r.counts {
		lo := r.displs[i]
		unpack(&r.views[i].Layout.body, r.views[i].Data, 0, r.row[lo:lo+n])
	}
}

// layRows is lay for a flight from rows to rows. It has their memory from then on. The slices of views stay the caller's.
func layRows[T any](f *flight, out, in *rows[T], plan func(s *schedule.Schedule)) {
	out.views, in.views = slices.Clone(out.views), slices.Clone(in.views)
	f.pack, f.unpack = out.pack, in.unpack
	f.held = append(f.held, out.mem, in.mem)
	f.note(bytesOf(out.row), bytesOf(in.row), plan)
}
