package head

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// The head's part in images of whole processes: whether they can be made, what a restart from them
// needs, and how long it may take.

// imageable finds out whether the program, which has been built by now, can be imaged from outside.
// A job that insists on it does not start otherwise. elsewhere says why it cannot be imaged on
// another node.
func (inc *incarnation) imageable(elsewhere error) error {
	o := &inc.h.opt
	name := spec.ImagerName(o.CR)
	if name == "" {
		return nil
	}
	code, err := spec.CanImage(name, inc.program())
	if err == nil {
		code, err = spec.ExitFailed, elsewhere
	}
	if err == nil {
		inc.imager = name
		inc.step(ckpt.HeadEvent{Type: ckpt.HvNative})
		return nil
	}
	inc.step(ckpt.HeadEvent{Type: ckpt.HvNative, Err: err.Error()})
	if o.CR == spec.CRAuto {
		inc.h.verbose("whole processes cannot be imaged, only what programs register (package cr): %v", err)
		return nil
	}
	return spec.WithStatus(code, fmt.Errorf("-cr=%s: %w", o.CR, err))
}

// wholeFrom reports whether an incarnation begins with images of whole processes.
func (inc *incarnation) wholeFrom() bool {
	return inc.from != nil && inc.from.Schema.Backend != wire.BackendSelf
}

// program is the path of the executable that the ranks run. An image of a whole
// process goes on in the very executable that it was made from.
func (inc *incarnation) program() string {
	if inc.wholeFrom() {
		return inc.from.ProgramPath()
	}
	return inc.h.prog.Path
}

// findChain finds the snapshots that the incarnation's first images build on.
func (inc *incarnation) findChain() (err error) {
	if inc.wholeFrom() {
		err = inc.source.Find()
	}
	return err
}

const (
	comeBackLimit = time.Minute
	slowestRead   = 20 << 20 // bytes a second
	slowestFetch  = 1 << 20  // from another node
)

// restoreLimit is how long a restart from images of whole processes may go
// without progress.
func (inc *incarnation) restoreLimit() time.Duration {
	var most uint64
	for _, im := range inc.from.Schema.Images {
		most += im.Raw
	}
	slowest := uint64(slowestRead)
	if inc.from.Place() != (snapshot.Place{}) {
		slowest = slowestFetch
	}
	return comeBackLimit + time.Duration(most/slowest)*time.Second
}

// gate measures how long no message could be sent, and what that has cost the ranks.
type gate struct {
	closed time.Time
	took   time.Duration // of the newest attempt
	ready  time.Duration // the longest time that a rank at its Point needed to get ready
	opened time.Time     // when the ranks went on; zero: they stand
}

// atPoint notes how long a rank at a Point has needed to get ready.
func (g *gate) atPoint(d time.Duration) { g.ready = max(g.ready, d) }

// stood is for how long the ranks stood in the newest attempt. Waiting at a Point for other ranks
// does not count: the rank would have waited for them in its next message.
func (g *gate) stood() time.Duration { return g.ready + g.took }

// passed looks at a frame that the machine sends.
func (g *gate) passed(k oob.Kind) {
	switch k {
	case oob.Close:
		if g.closed.IsZero() {
			g.closed, g.took, g.opened = time.Now(), 0, time.Time{}
		}
	case oob.Open, oob.Commit, oob.Revert, oob.Running:
		if !g.closed.IsZero() {
			g.opened = time.Now()
			g.took, g.closed = g.opened.Sub(g.closed), time.Time{}
		}
		if k == oob.Revert {
			g.ready = 0
		}
	}
}

// ago is how long ago the gates were closed for the newest attempt.
func (g *gate) ago() time.Duration {
	if g.opened.IsZero() { // the job ends with it
		return g.so()
	}
	return g.took + time.Since(g.opened)
}

// began is when the gates were closed.
func (g *gate) began() time.Time { return time.Now().Add(-g.ago()) }

// so is how long the gate has been closed so far.
func (g *gate) so() time.Duration {
	if !g.closed.IsZero() {
		return time.Since(g.closed)
	}
	return g.took
}

// report describes the snapshot that was committed last.
func (h *head) report(d *ckpt.Done) *control.Report {
	s := h.newest()
	r := &control.Report{
		Schema: rawstring.String(s.SchemaPath()), Sequence: s.Schema.Sequence, Backend: s.Schema.Backend, Ranks: s.Schema.NP,
		Base: d.Base, Bytes: s.Bytes(), Pause: d.Pause, Gate: time.Duration(s.Schema.Gate), Notes: d.Notes,
		Took: time.Since(h.waiters.byID[d.ID].began),
	}
	for _, im := range s.Schema.Images {
		r.Memory += im.Raw
	}
	if storage.InMemory(s) {
		r.Notes = append(r.Notes, "it is in the memory of the nodes and ends with the job; checkpoint -stop writes to -ckpt-dir")
	}
	return r
}

// holdParts opens the programs that ranks are about to become.
func (h *head) holdParts() {
	for _, part := range h.parts {
		part.Remove()
	}
	h.parts = nil
	for _, part := range program.PartsOf(h.opt.Args) {
		p := &program.Program{}
		p.Hold(part.Path)
		h.parts = append(h.parts, p)
	}
}
