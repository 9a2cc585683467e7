package mpi

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Halo is the exchange of the border of an array that is distributed over a grid. Each rank has a part of it, with
// layers of ghost cells around: copies of what the neighbours compute. It keeps its buffers, so an exchange
// allocates nothing. (MPI-4.1, chapter 8.6, is what it is made of)
type Halo[T any] struct {
	t     *Cart
	field []T
	dims  []int // of field
	steps [][]face[T]
	f     *flight // of Start; nil before the first
}

// face is what is exchanged with one neighbour in one step.
type face[T any] struct {
	peer     int
	run      int   // elements of a row
	out, in  []int // where the rows that are sent begin in field, and those that are received
	sent     []T
	received []T
}

// region is a box within an array.
type region struct{ lo, hi []int }

// rows returns where the rows of a region begin in an array.
func (r region) rows(dims []int) []int {
	begins := []int{0}
	for d, n := range dims {
		var next []int
		for _, b := range begins {
			if d == len(dims)-1 {
				next = append(next, b*n+r.lo[d])
				continue
			}
			for i := r.lo[d]; i < r.hi[d]; i++ {
				next = append(next, b*n+i)
			}
		}
		begins = next
	}
	return begins
}

// NewHalo prepares the exchange of field: this rank's part, with width ghost cells at both ends of each dimension.
// dims are its lengths with the ghost cells, the last one running fastest; where a rank has neighbours, its part has
// width cells of its own at least. If corners is true, ghost cells that are
// beyond the ends of several dimensions are exchanged, too, as stencils with diagonals need; that takes a step for
// each dimension. field stays the caller's, who computes in it between exchanges. It sends nothing. Errors: ErrComm;
// ErrDims if t has another number of dimensions, or a part is too small; ErrCount if field has not that length;
// ErrType.
func NewHalo[T any](t *Cart, field []T, dims []int, width int, corners bool) (*Halo[T], error) {
	err := t.check()
	if err == nil {
		_, err = elem[T]()
	}
	if err == nil {
		err = haloFits(t, len(field), dims, width)
	}
	if err != nil {
		return nil, t.wrong("NewHalo", err)
	}
	h := &Halo[T]{t: t, field: field, dims: slices.Clone(dims)}
	var all []face[T]
	for d := range dims {
		step := h.faces(d, width, corners)
		all = append(all, step...)
		if corners {
			h.steps = append(h.steps, step)
		}
	}
	if !corners {
		h.steps = [][]face[T]{all}
	}
	return h, nil
}

func haloFits(t *Cart, have int, dims []int, width int) error {
	if len(dims) != len(t.dims) || width < 1 {
		return fmt.Errorf("%w: %d of them with %d ghost cells, on a grid of %d", ErrDims, len(dims), width, len(t.dims))
	}
	points := 1
	for d, n := range dims {
		parts := 3
		if t.hood.sources[2*d] == ProcNull && t.hood.sources[2*d+1] == ProcNull {
			parts = 2 // nothing of it is sent
		}
		if n/parts < width {
			return fmt.Errorf("%w: %v are too short for %d ghost cells at both ends and, for a neighbour, as many between", ErrDims, dims, width)
		}
		if n > have/points {
			points = -1
			break
		}
		points *= n
	}
	if points != have {
		return fmt.Errorf("%w: field has %d elements, its dimensions are %v", ErrCount, have, dims)
	}
	return nil
}

// faces returns both ends of a dimension. Below comes first, as in the neighbourhood.
func (h *Halo[T]) faces(d, width int, corners bool) []face[T] {
	inner := region{make([]int, len(h.dims)), make([]int, len(h.dims))}
	for e, n := range h.dims {
		inner.lo[e], inner.hi[e] = width, n-width
		if corners && e < d { // the steps before have filled its ghost cells
			inner.lo[e], inner.hi[e] = 0, n
		}
	}
	slab := func(lo int) region {
		r := region{slices.Clone(inner.lo), slices.Clone(inner.hi)}
		r.lo[d], r.hi[d] = lo, lo+width
		return r
	}
	n := h.dims[d]
	all := make([]face[T], 2)
	for i, at := range [2][2]int{{width, 0}, {n - 2*width, n - width}} { // what is sent, and the ghost cells
		out, in, last := slab(at[0]), slab(at[1]), len(h.dims)-1
		f := face[T]{peer: h.t.hood.sources[2*d+i], run: out.hi[last] - out.lo[last], out: out.rows(h.dims), in: in.rows(h.dims)}
		if f.peer != ProcNull {
			f.sent, f.received = make([]T, len(f.out)*f.run), make([]T, len(f.in)*f.run)
		}
		all[i] = f
	}
	return all
}

// Exchange fills the ghost cells with what the neighbours have at their borders. Beyond the end of the grid they
// stay as they are. All ranks of the grid call it, in the order of its collectives. Errors: ErrComm; ErrRequest if a request of
// Start has not been ended; ErrMismatch if a neighbour's border has another size; ErrPeerFailed; ErrDeadline. (MPI-4.1, chapter 8.6)
func (h *Halo[T]) Exchange() error {
	if h == nil || h.t == nil {
		return (*Comm)(nil).fail("Exchange", (*Comm)(nil).ready())
	}
	t, err := elem[T]()
	x, err := h.t.enter(kindHalo, noRoot, t, -1, first(err, h.active()))
	if err != nil {
		return err
	}
	for _, step := range h.steps {
		if err = h.exchange(x, step); err != nil {
			break
		}
	}
	return x.leave(err)
}

func (h *Halo[T]) exchange(x *collective, step []face[T]) error {
	h.pack(step)
	for i := range step {
		if f := &step[i]; h.remote(f) {
			x.get(f.peer, bytesOf(f.received))
		}
	}
	for i := range step { // what goes up comes from below, also where both are the same rank
		if f := &step[i^1]; h.remote(f) {
			x.put(f.peer, bytesOf(f.sent))
		}
	}
	if err := x.run(); err != nil {
		return err
	}
	h.unpack(step)
	return nil
}

// remote reports whether what a face exchanges is messages.
func (h *Halo[T]) remote(f *face[T]) bool { return f.peer != ProcNull && f.peer != h.t.rank }

// pack copies the border to where it is sent from.
func (h *Halo[T]) pack(step []face[T]) {
	for i := range step {
		f, twin := &step[i], &step[i^1]
		if f.peer == ProcNull {
			continue
		}
		for i, at := range f.out {
			copy(f.sent[i*f.run:][:f.run], h.field[at:])
		}
		if f.peer == h.t.rank {
			copy(twin.received, f.sent)
		}
	}
}

// unpack copies what has come to the ghost cells.
func (h *Halo[T]) unpack(step []face[T]) {
	for i := range step {
		if f := &step[i]; f.peer != ProcNull {
			for i, at := range f.in {
				copy(h.field[at:at+f.run], f.received[i*f.run:])
			}
		}
	}
}

// Start begins Exchange, which goes on while the program computes what needs no ghost cells. Until the request completes the ghost
// cells belong to the library, and the border, as wide as they are, is only read. One request of a Halo is
// under way at a time. Errors: as Exchange at the call; with the request ErrMismatch, ErrPeerFailed. (MPI-4.1, chapter 8.7)
func (h *Halo[T]) Start() (Request, error) {
	if h == nil || h.t == nil {
		return Request{}, (*Comm)(nil).fail("Halo.Start", (*Comm)(nil).ready())
	}
	t, err := elem[T]()
	if h.f == nil {
		h.f = &flight{c: h.t.Comm, kind: kindHalo | begun, root: noRoot, pack: func() { h.pack(h.steps[0]) }}
	}
	if err := h.f.take(t, -1, noOp, first(err, h.active())); err != nil {
		return Request{}, err
	}
	h.lay()
	return h.f.start()
}

// active returns ErrRequest if a request of Start has not been ended.
func (h *Halo[T]) active() error {
	if h.f != nil && h.f.c.env.eng.Lives(h.f.last()) {
		return errActive
	}
	return nil
}

// lay makes the messages of the flight: new ones at first, and then only their tags, which are those of the call.
func (h *Halo[T]) lay() {
	f := h.f
	if f.plan.Rounds == nil {
		work := 0
		for _, step := range h.steps {
			var parts []engine.Part
			for i := range step {
				if p := &step[i]; h.remote(p) {
					work += len(bytesOf(p.received))
					parts = append(parts, engine.Part{Peer: h.t.toWorld(p.peer), Recv: true, Exact: true, Type: &f.typ, Buf: bytesOf(p.received)})
				}
			}
			for i := range step { // as in exchange
				if p := &step[i^1]; h.remote(p) {
					parts = append(parts, engine.Part{Peer: h.t.toWorld(p.peer), Type: &f.typ, Buf: bytesOf(p.sent)})
				}
			}
			f.plan.Rounds = append(f.plan.Rounds, engine.Round{Parts: parts, Do: true})
		}
		f.ready(h.between, work)
	}
	for _, r := range f.plan.Rounds {
		for i := range r.Parts {
			r.Parts[i].Tag = int32(f.seq & MaxTag)
		}
	}
}

// between ends a step and prepares the next one.
func (h *Halo[T]) between(step int) error {
	h.unpack(h.steps[step])
	if step+1 < len(h.steps) {
		h.pack(h.steps[step+1])
	}
	return nil
}
