package dist

import (
	"fmt"
	"reflect"

	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/mpi"
)

// Imaged is a variable whose value may lie elsewhere than in the program's memory. *device.Array is one; cr.Register says what
// it is asked for.
type Imaged interface {
	Image() (ptr any, fetch, restored func() error)
}

// Held is for rows that something else than an Array holds, such as a device: state.Register("x", h) with h from
//
//	h, err := dist.Held(c, rows, width, x.Rows(1, n+1))
//
// registers x's rows but the first and the last one, its halo, as this rank's part. It may be restored by any number of ranks, as an
// Array. It sends nothing. Errors: ErrRows if v has not as many elements as this rank's rows.
func Held(c *mpi.Comm, rows Rows, width int, v Imaged) (Imaged, error) {
	if err := rows.check(c.Size()); err != nil {
		return nil, err
	}
	first, end := rows.Of(c.Rank())
	ptr, _, _ := v.Image()
	p := reflect.ValueOf(ptr)
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Slice || width < 1 || p.Elem().Len() != (end-first)*width {
		return nil, fmt.Errorf("%w: %T does not hold rows %d to %d of %d elements each", ErrRows, v, first, end, width)
	}
	return &held{v, self.Part{Rows: rows.Total(), Width: width, First: first}}, nil
}

// held is rows of something else.
type held struct {
	v    Imaged
	part self.Part
}

// Image is what v is, as a part of all rows.
func (h *held) Image() (ptr any, fetch, restored func() error) {
	part := h.part
	part.Own, fetch, restored = h.v.Image()
	return partOf(part), fetch, restored
}

// partOf is a self.Distributed.
type partOf self.Part

func (p partOf) Part() self.Part { return self.Part(p) }
