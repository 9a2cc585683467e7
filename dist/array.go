package dist

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/mpi"
)

// Errors of this package, for errors.Is.
var (
	// ErrRows says that rows, their width or a halo cannot be.
	ErrRows = errors.New("invalid rows")
	// ErrActive is returned by a call while an exchange is under way.
	ErrActive = errors.New("an exchange was started and has not been waited for")
)

// Array is rows of elements that are distributed over the ranks of a communicator. One goroutine at a time uses the
// part of a rank.
type Array[T any] struct {
	c      *mpi.Comm // for its halos alone
	rows   Rows
	width  int
	halo   int
	first  int // own row
	end    int
	active bool
	part[T]
}

// part is the memory of a rank, and the messages that are bound to it.
type part[T any] struct {
	mem      []T // with the halo
	own      []T // without
	calls    []*mpi.Persistent
	requests []mpi.Request
}

// New makes an Array of rows with so many elements each, all zero, with a halo of so many rows on each side. All ranks of c
// call it, in the order of its collectives, with the same arguments. It waits for nobody. T is of fixed size. Errors: ErrRows;
// mpi.ErrComm; mpi.ErrType.
func New[T any](c *mpi.Comm, rows Rows, width, halo int) (*Array[T], error) {
	return newArray[T](c, rows, width, halo, nil)
}

// Over makes an Array of memory that the program has: own is the rows of this rank. There is no halo. It is for programs that bring
// together by themselves what they need of other ranks. The memory stays the program's, also after a restart. Else it is as New,
// with ErrRows also if own has not as many elements as those rows.
func Over[T any](c *mpi.Comm, rows Rows, width int, own []T) (*Array[T], error) {
	if own == nil {
		own = []T{}
	}
	return newArray(c, rows, width, 0, own)
}

// newArray makes an Array of some memory, nil: of its own.
func newArray[T any](c *mpi.Comm, rows Rows, width, halo int, mem []T) (*Array[T], error) {
	if err := rows.check(c.Size()); err != nil {
		return nil, err
	}
	if c.IsInter() {
		return nil, fmt.Errorf("%w: an intercommunicator, whose messages go to the other group: make the Array of a communicator of one group", mpi.ErrComm)
	}
	if width < 1 || halo < 0 {
		return nil, fmt.Errorf("%w: %d elements in each, a halo of %d", ErrRows, width, halo)
	}
	if _, err := mpi.RecvInit(c, mem[:0], mpi.ProcNull, 0); err != nil { // on all ranks alike, with a halo or without
		return nil, err
	}
	a := &Array[T]{rows: slices.Clone(rows), width: width, halo: halo}
	a.first, a.end = rows.Of(c.Rank())
	n := (a.end - a.first + 2*halo) * width
	if mem == nil {
		mem = make([]T, n)
	}
	if len(mem) != n {
		return nil, fmt.Errorf("%w: %d elements for rows %d to %d of %d each", ErrRows, len(mem), a.first, a.end, width)
	}
	a.mem, a.own = mem, mem[halo*width:n-halo*width:n-halo*width]
	var err error
	if a.c, err = c.Dup(); err != nil { // no message of the program is taken for one of a halo
		return nil, err
	}
	if err := a.connect(); err != nil {
		return nil, errors.Join(err, a.c.Free())
	}
	return a, nil
}

// connect makes the messages of the halo.
func (a *Array[T]) connect() error {
	in, out := a.rows.halo(a.c.Rank(), a.halo)
	for _, m := range in {
		if err := a.add(mpi.RecvInit(a.c, a.span(m.first, m.end), m.peer, 0)); err != nil {
			return err
		}
	}
	for _, m := range out {
		if err := a.add(mpi.SendInit(a.c, a.span(m.first, m.end), m.peer, 0)); err != nil {
			return err
		}
	}
	a.requests = make([]mpi.Request, len(a.calls))
	return nil
}

func (a *Array[T]) add(p *mpi.Persistent, err error) error {
	a.calls = append(a.calls, p)
	return err
}

// span is the memory of some rows.
func (a *Array[T]) span(first, end int) []T {
	from := (first - a.first + a.halo) * a.width
	to := (end - a.first + a.halo) * a.width
	return a.mem[from:to:to]
}

// Rows says which rank has which rows. It stays the Array's.
func (a *Array[T]) Rows() Rows { return a.rows }

// Range returns the rows of this rank, first <= i < end.
func (a *Array[T]) Range() (first, end int) { return a.first, a.end }

// Own returns the rows of this rank, one after the other. It is the Array's memory, until Swap.
func (a *Array[T]) Own() []T { return a.own }

// Row returns a row of this rank or of its halo, by its number among the rows of all ranks. It is the Array's memory, until Swap.
// Row panics if this rank has no such row.
func (a *Array[T]) Row(i int) []T {
	if i < a.first-a.halo || i >= a.end+a.halo {
		panic(fmt.Sprintf("dist: row %d on a rank that has rows %d to %d and a halo of %d", i, a.first, a.end, a.halo))
	}
	return a.span(i, i+1)
}

// Exchange fills the halo with the rows that other ranks have. All ranks that share rows call it, for several Arrays in the same
// order. Errors: as Start and Wait.
func (a *Array[T]) Exchange() error {
	if err := a.Start(); err != nil {
		return err
	}
	return a.Wait()
}

// Start begins an Exchange. Until Wait the program leaves the halo alone, and does not write to rows that others have in theirs.
// No Point may lie between. Errors: ErrActive; as mpi.Startall.
func (a *Array[T]) Start() error {
	if a.active {
		return ErrActive
	}
	err := mpi.Startall(a.calls, a.requests)
	a.active = err == nil
	return err
}

// Wait ends what Start has begun. Errors: as mpi.Waitall.
func (a *Array[T]) Wait() error {
	a.active = false
	return mpi.WaitallInto(a.requests, nil)
}

// Swap exchanges the rows and halos of two Arrays that are distributed alike, without copying, as a program does that computes
// one of the other. What is registered is the Array, so it is saved with the rows that it has at the Point. Errors: ErrRows
// if they are not distributed alike; ErrActive.
func (a *Array[T]) Swap(b *Array[T]) error {
	switch {
	case a.width != b.width || a.halo != b.halo || !slices.Equal(a.rows, b.rows):
		return fmt.Errorf("%w: Swap of Arrays that are distributed in different ways", ErrRows)
	case a.active || b.active:
		return ErrActive
	}
	a.part, b.part = b.part, a.part
	return nil
}

// Gather returns all rows on one rank, and nil on the others. All ranks of the communicator call it. The caller owns the rows.
// Errors: as mpi.Gatherv.
func (a *Array[T]) Gather(root int) ([]T, error) {
	var all []T
	var counts, at []int
	if a.c.Rank() == root {
		all = make([]T, a.rows.Total()*a.width)
		for rank := range a.c.Size() {
			first, end := a.rows.Of(rank)
			counts, at = append(counts, (end-first)*a.width), append(at, first*a.width)
		}
	}
	return all, mpi.Gatherv(a.c, a.own, all, counts, at, root)
}

// Free gives the Array's communicator up. No exchange may be under way. Every rank calls it when it no longer needs the Array; it
// waits for nobody. The rows stay, and so does a registration. Errors: ErrActive; mpi.ErrComm if it was freed.
func (a *Array[T]) Free() error {
	if a.active {
		return ErrActive
	}
	return a.c.Free()
}

// Part is for cr.Register: what this rank has.
func (a *Array[T]) Part() self.Part {
	return self.Part{Rows: a.rows.Total(), Width: a.width, First: a.first, Own: &a.own}
}

// String names type and rows.
func (a *Array[T]) String() string {
	return fmt.Sprintf("dist.Array[%v] of %d rows of %d, here %d to %d", reflect.TypeFor[T](), a.rows.Total(), a.width, a.first, a.end)
}
