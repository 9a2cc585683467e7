package native

import (
	"github.com/gorun-mpi/gorun/cr/whole"
)

// tracer is what an agent works with: captures and restores on the same threads.
type tracer struct {
	*pool
	agent *agent
}

// newTracer starts the threads.
func newTracer(threads int) whole.Tracer {
	p := newPool(threads)
	return &tracer{p, newAgent(p)}
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
	return startRestore(t.pool, o)
}
