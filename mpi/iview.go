package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Messages of views that go on while the program computes. What lies in a row is sent and received where it is. Else the
// request is that of a plan of one message, which has memory for the row: elements are packed when it begins, and what has
// arrived is unpacked outside the engine's lock, by whoever is in a call.

// strided is a message of elements that do not lie in a row.
type strided struct {
	plan   engine.Plan
	rounds [1]engine.Round
	parts  [1]engine.Part
	c      *Comm
	op     operation
	peer   int
	tag    int
	row    *scratch
	pack   func()          // of a send: copies the elements to the row
	unpack func(bytes int) // of a receive: copies so many bytes of the row to their places
	kept   bool            // it is persistent, and keeps the row
}

// newStrided makes a message of a view that was checked, with a rank that is not ProcNull.
func newStrided[T any](c *Comm, op operation, t *engine.Type, v View[T], peer, tag int) *strided {
	row, s := borrowSlice[T](v.Layout.size)
	m := &strided{c: c, op: op, peer: peer, tag: tag, row: s}
	m.parts[0] = engine.Part{Peer: c.source(peer), Recv: op.receives(), Sync: op.mode() == engine.Synchronous, Tag: int32(tag), Type: t, Buf: bytesOf(row)}
	m.rounds[0] = engine.Round{Parts: m.parts[:], Do: op.receives()}
	m.plan.Ctx, m.plan.Rounds, m.plan.What, m.plan.Over = c.ctx, m.rounds[:], what(m.name), m.over
	if !op.receives() {
		m.pack = func() { pack(&v.Layout.body, row, v.Data, 0) }
		return m
	}
	m.unpack = func(bytes int) { unpack(&v.Layout.body, v.Data, 0, row[:min(bytes/t.Size, len(row))]) }
	m.plan.Do = func(int) error {
		m.unpack(m.parts[0].Status.Bytes)
		return nil
	}
	m.plan.Brief = len(row)*t.Size <= briefly
	return m
}

func (m *strided) name() string {
	return fmt.Sprintf("%s(%s %s, tag %s) on %s", operations[m.op], m.op.role(), rankName(m.peer), tagName(m.tag), m.c.path)
}

// over ends the message. One that is longer than the view has failed, and fills it all the same.
func (m *strided) over() {
	if m.parts[0].Cut {
		m.unpack(len(m.parts[0].Buf))
	}
	if !m.kept {
		m.release()
	}
}

func (m *strided) last() engine.Request { return m.plan.Last() }

func (m *strided) release() {
	m.row.giveBack()
	m.row = nil
}

func (m *strided) start() (Request, error) {
	eng := m.c.env.eng
	var err error
	if m.pack != nil {
		if eng.Lives(m.plan.Last()) { // the row is being sent
			err = errActive
		} else {
			m.pack()
		}
	}
	var r engine.Request
	if err == nil {
		r, err = eng.Begin(&m.plan)
	}
	if err != nil {
		return m.c.refused(m.op, m.peer, m.tag, err)
	}
	r.Note = note(m.op, m.parts[0].Type)
	return Request{r, m.c, int32(m.peer), int32(m.tag)}, nil
}

// IsendView begins SendView. The view's elements belong to the library until the request completes. Errors: as Isend, ErrLayout. (MPI-4.1,
// chapters 3.7.2 and 5.1.11)
func IsendView[T any](c *Comm, v View[T], dst, tag int) (Request, error) {
	return beginView(c, opIsendView, v, dst, tag)
}

// IssendView begins SsendView. The view's elements belong to the library until the request completes. Errors: as Isend, ErrLayout. (MPI-4.1,
// chapters 3.7.2 and 5.1.11)
func IssendView[T any](c *Comm, v View[T], dst, tag int) (Request, error) {
	return beginView(c, opIssendView, v, dst, tag)
}

// IrecvView begins RecvView. The view's elements belong to the library until the request completes; what lies between them is
// never touched. Errors: as Irecv, ErrLayout. (MPI-4.1, chapters 3.7.2 and 5.1.11)
func IrecvView[T any](c *Comm, v View[T], src, tag int) (Request, error) {
	return beginView(c, opIrecvView, v, src, tag)
}

// SendViewInit makes a persistent SendView: each start sends what the view's elements are then. Errors: as Isend, ErrLayout. (MPI-4.1,
// chapters 3.9 and 5.1.11)
func SendViewInit[T any](c *Comm, v View[T], dst, tag int) (*Persistent, error) {
	return initView("SendViewInit", c, opIsendView, v, dst, tag)
}

// SsendViewInit makes a persistent SsendView. Errors: as Isend, ErrLayout. (MPI-4.1, chapters 3.9 and 5.1.11)
func SsendViewInit[T any](c *Comm, v View[T], dst, tag int) (*Persistent, error) {
	return initView("SsendViewInit", c, opIssendView, v, dst, tag)
}

// RecvViewInit makes a persistent RecvView. Errors: as Irecv, ErrLayout. (MPI-4.1, chapters 3.9 and 5.1.11)
func RecvViewInit[T any](c *Comm, v View[T], src, tag int) (*Persistent, error) {
	return initView("RecvViewInit", c, opIrecvView, v, src, tag)
}

// checkView returns what is wrong with the arguments of a message of a view, and its type.
func checkView[T any](c *Comm, op operation, v *View[T], peer, tag int) (*engine.Type, error) {
	t, err := elem[T]()
	check := c.checkSend
	if op.receives() {
		check = c.checkRecv
	}
	return t, first(err, check(peer, tag), v.check(op.receives()))
}

func beginView[T any](c *Comm, op operation, v View[T], peer, tag int) (Request, error) {
	t, err := checkView(c, op, &v, peer, tag)
	if err != nil || peer == ProcNull {
		return c.refused(op, peer, tag, err)
	}
	row, ok := v.straight()
	switch {
	case ok && op.receives():
		return c.irecv(op, t, bytesOf(row), peer, tag)
	case ok:
		return c.isend(op, t, bytesOf(row), peer, tag)
	}
	m := newStrided(c, op, t, v, peer, tag)
	r, err := m.start()
	if err != nil {
		m.release()
	}
	return r, err
}

func initView[T any](call string, c *Comm, op operation, v View[T], peer, tag int) (*Persistent, error) {
	t, err := checkView(c, op, &v, peer, tag)
	if err != nil {
		return nil, c.failPeer(call, op.role(), peer, tag, err)
	}
	row, ok := v.straight()
	p := c.persistent(op, t, bytesOf(row), peer, tag)
	if !ok && peer != ProcNull {
		m := newStrided(c, op, t, v, peer, tag)
		m.kept, p.f, p.eng = true, m, nil
	}
	return p, nil
}
