package native

import (
	"github.com/gorun-mpi/gorun/cr/native/internal/capture"
	"github.com/gorun-mpi/gorun/cr/native/internal/restore"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// supported says why processes cannot be imaged on this machine.
func supported() error { return capture.Supported() }

// features lists the optional features of this machine.
func features() []whole.Feature { return capture.Features() }

// tracer is what an agent works with: captures and restores on the same threads.
type tracer struct {
	*trace.Threads
	agent *capture.Agent
}

// newTracer starts the threads.
func newTracer(threads int) whole.Tracer {
	p := trace.NewThreads(threads)
	return &tracer{p, capture.New(p)}
}

// Attach prepares the imaging of a process.
func (t *tracer) Attach(pid, rank, oob int, std [3]int) (whole.Target, error) {
	g, err := t.agent.Attach(pid, rank, oob, std)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Restore starts a process that goes on from an image.
func (t *tracer) Restore(o whole.RestoreOptions) (*whole.Restored, error) {
	r, err := restore.Start(t.Threads, o)
	if err == nil {
		t.agent.CameBack(r.PID, r.Extensions)
	}
	return r, err
}
