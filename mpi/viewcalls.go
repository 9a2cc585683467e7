package mpi

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// straight returns the view's elements if they lie in a row, so that nothing need be copied.
func (v *View[T]) straight() ([]T, bool) {
	b, at := &v.Layout.body, 0
	for len(b.at) == 1 {
		at += b.at[0]
		b = &b.inner[0]
	}
	if b.inner != nil {
		return nil, false
	}
	return v.Data[at : at+b.n], true
}

// packed returns the view's elements in a row, perhaps in scratch, which is to be given back.
func (v *View[T]) packed() ([]T, *scratch, error) {
	if err := v.check(false); err != nil {
		return nil, nil, err
	}
	if row, ok := v.straight(); ok {
		return row, nil, nil
	}
	tmp, s := borrowSlice[T](v.Layout.size)
	pack(&v.Layout.body, tmp, v.Data, 0)
	return tmp, s, nil
}

// landing is memory in a row for what the view is to receive.
type landing[T any] struct {
	row []T
	s   *scratch // nil: row is the view's own memory
}

func (v *View[T]) landing() (l landing[T], err error) {
	if err := v.check(true); err != nil {
		return l, err
	}
	if row, ok := v.straight(); ok {
		return landing[T]{row: row}, nil
	}
	l.row, l.s = borrowSlice[T](v.Layout.size)
	return l, nil
}

// end has what arrived in its places.
func (l *landing[T]) end(v *View[T], st Status, err error) {
	if l.s == nil {
		return
	}
	if err != nil && !errors.Is(err, ErrTruncate) {
		return // nobody else may have the scratch while the message may still come
	}
	n := min(st.Bytes/int(unsafe.Sizeof(*new(T))), len(l.row))
	unpack(&v.Layout.body, v.Data, 0, l.row[:n])
	l.s.giveBack()
}

// SendView is Send of a view's elements. The receiver may have another layout, or none: only the number and the type of the
// elements count. Errors: as Send, ErrLayout. (MPI-4.1, chapters 3.2.1 and 5.1.11)
func SendView[T any](c *Comm, v View[T], dst, tag int) error {
	return sendView("SendView", c, &v, dst, tag, engine.Standard)
}

// SsendView is Ssend of a view's elements. Errors: as Ssend, ErrLayout. (MPI-4.1, chapters 3.4 and 5.1.11)
func SsendView[T any](c *Comm, v View[T], dst, tag int) error {
	return sendView("SsendView", c, &v, dst, tag, engine.Synchronous)
}

func sendView[T any](call string, c *Comm, v *View[T], dst, tag int, mode engine.SendMode) error {
	t, err := elem[T]()
	var row []T
	if err == nil {
		var s *scratch
		row, s, err = v.packed()
		defer s.giveBack()
	}
	return c.send(call, t, err, bytesOf(row), dst, tag, mode)
}

// RecvView is Recv into a view's elements. A shorter message leaves the rest of them as it is; what lies between them is
// never touched. Errors: as Recv, ErrLayout. (MPI-4.1, chapters 3.2.4 and 5.1.11)
func RecvView[T any](c *Comm, v View[T], src, tag int) (Status, error) {
	t, err := elem[T]()
	var l landing[T]
	if err == nil {
		l, err = v.landing()
	}
	st, err := c.recv("RecvView", t, err, bytesOf(l.row), src, tag)
	l.end(&v, st, err)
	return st, err
}

// SendrecvView is Sendrecv of two views. They may pick elements of the same slice, but none that both have. Errors: as Sendrecv,
// ErrLayout. (MPI-4.1, chapters 3.10 and 5.1.11)
func SendrecvView[S, R any](c *Comm, send View[S], dst, stag int, recv View[R], src, rtag int) (Status, error) {
	st, err := elem[S]()
	rt, rerr := elem[R]()
	var row []S
	var l landing[R]
	if err = first(err, rerr); err == nil {
		var s *scratch
		row, s, err = send.packed()
		defer s.giveBack()
	}
	if err == nil {
		l, err = recv.landing()
	}
	if sp, rp := bytesOf(row), bytesOf(l.row); err == nil && overlap(sp, rp) {
		err = ErrBuffer
	}
	status, err := c.sendrecv("SendrecvView", st, rt, err, bytesOf(row), dst, stag, bytesOf(l.row), src, rtag)
	l.end(&recv, status, err)
	return status, err
}

// Alltoallw is Alltoallv where each block has a layout of its own: rank i gets the elements of send[i], and what
// it sends goes to those of recv[i]. Both have a view for each rank; that of a rank that gets nothing may be the zero View. No
// element is sent and received, which is not checked. Errors: as Alltoallv, ErrLayout. (MPI-4.1, chapter 6.8)
func Alltoallw[T any](c *Comm, send, recv []View[T]) error {
	out, in, wrong := alltoallwRows(c, send, recv)
	defer out.mem.giveBack()
	defer in.mem.giveBack()
	t, err := elem[T]()
	var x *collective
	if err = first(err, wrong); c.crosses() {
		x, err = c.cross(kindAlltoallw, noRoot, t, noOp, err)
	} else {
		x, err = c.enter(kindAlltoallw, noRoot, t, -1, err)
	}
	if err != nil {
		return err
	}
	out.pack()
	if c.crosses() {
		err = x.across(bytesOf(out.row), out.at, bytesOf(in.row), in.at)
	} else {
		err = x.alltoallv(bytesOf(out.row), out.blocks, bytesOf(in.row), in.blocks)
	}
	if err := x.leave(err); err != nil {
		return err
	}
	in.unpack()
	return nil
}

// Ialltoallw begins Alltoallw. The views' elements belong to the library until the request completes. Errors: as Ialltoallv,
// ErrLayout. (MPI-4.1, chapter 6.12.6)
func Ialltoallw[T any](c *Comm, send, recv []View[T]) (Request, error) {
	return launch(flyAlltoallw(c, begun, send, recv))
}

// AlltoallwInit makes a persistent Alltoallw. Errors at the call: as Ialltoallw. (MPI-4.1, chapter 6.13.6)
func AlltoallwInit[T any](c *Comm, send, recv []View[T]) (*Persistent, error) {
	return settled(flyAlltoallw(c, persistent, send, recv))
}

func flyAlltoallw[T any](c *Comm, form kind, send, recv []View[T]) (*flight, error) {
	out, in, wrong := alltoallwRows(c, send, recv)
	t, err := elem[T]()
	f, err := c.take(kindAlltoallw|form, noRoot, t, -1, noOp, first(err, wrong))
	if err != nil {
		return nil, err
	}
	layRows(f, out, in, func(s *schedule.Schedule) {
		if c.crosses() {
			to, from := c.partners(kindAlltoallw, noRoot)
			schedule.Across(s, to, from, out.at, in.at)
		} else {
			schedule.Alltoall(s, c.rank, c.size, out.at, in.at, schedule.Window)
		}
	})
	return f, nil
}

// alltoallwRows returns rows for what is sent and received, and what is wrong with the arguments.
func alltoallwRows[T any](c *Comm, send, recv []View[T]) (out, in *rows[T], wrong error) {
	out, serr := rowsOf("send", send, c.others(), nil, false)
	in, rerr := rowsOf("recv", recv, c.others(), nil, true)
	if wrong = first(serr, rerr); wrong == nil && c.sound() && out.counts[c.rank] != in.counts[c.rank] {
		wrong = fmt.Errorf("%w: %d elements to itself, %d from itself", ErrCount, out.counts[c.rank], in.counts[c.rank])
	}
	return out, in, wrong
}
