package head

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/launcher"
)

// The gate is closed from the first order to close to the first to open, or to
// the end of an attempt that never opens it.
func TestGate(t *testing.T) {
	for _, end := range []oob.Kind{oob.Open, oob.Commit, oob.Revert} {
		var g gate
		g.passed(oob.Close)
		began := g.closed
		g.passed(oob.Close)
		if g.closed != began || g.so() <= 0 {
			t.Errorf("closed at %v, then at %v", began, g.closed)
		}
		g.passed(end)
		took := g.took
		g.passed(oob.Commit)
		if took <= 0 || g.took != took || g.so() != took {
			t.Errorf("%v, then %v", took, g.took)
		}
	}
}

func TestCanImage(t *testing.T) { // ldd is a script
	if _, err := spec.CanImage("nosuch", "/usr/bin/ldd"); err == nil || !strings.Contains(err.Error(), "it has: native") {
		t.Errorf("%v", err)
	}
	by, err := whole.Find(whole.Default())
	if err != nil || by.Supported() != nil {
		t.Skip("native images do not work here")
	}
	if code, err := spec.CanImage(whole.Default(), "/usr/bin/ldd"); code != spec.ExitCannotExec || err == nil {
		t.Errorf("of /usr/bin/ldd: %d %v", code, err)
	}
	h := &head{opt: spec.Options{CkptExit: new(int), NP: 1, CR: whole.Default(), CkptDir: t.TempDir()}, prog: program.Program{Path: "/usr/bin/ldd"}}
	if err := h.openStorage(); err != nil {
		t.Fatal(err)
	}
	h.newJob()
	inc := &incarnation{h: h, n: 1}
	if err := inc.imageable(nil); err == nil || spec.StatusOf(err) != spec.ExitCannotExec {
		t.Errorf("-cr=native of /usr/bin/ldd: %v", err)
	}
	inc.h.opt.CR = spec.CRAuto
	if err := inc.imageable(nil); err != nil || inc.imager != "" {
		t.Errorf("-cr=auto of /usr/bin/ldd: %v, %q", err, inc.imager)
	}
}

var errScarce = errors.New("too many open files")

// A job whose agents cannot be started ends with the reason.
func TestNoAgents(t *testing.T) {
	h := &head{
		opt:    spec.Options{CkptExit: new(int), NP: 2, Agents: 1},
		start:  func(int) (launcher.Agent, error) { return nil, errScarce },
		events: make(chan func(), 16), done: make(chan struct{}),
		control: &control.Server{}, timers: map[uint64]*time.Timer{},
	}
	if err := h.openStorage(); err != nil {
		t.Fatal(err)
	}
	h.newJob()
	h.feed(joblife.Event{Type: joblife.EvStart})
	if !h.over || h.result.Code != spec.ExitFailed || h.result.Text != errScarce.Error() {
		t.Errorf("over %v: %+v", h.over, h.result)
	}
}
