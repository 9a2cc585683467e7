//go:build !amd64

package native

import "github.com/gorun-mpi/gorun/cr/whole"

// On other architectures every call returns an error.

// supported says why processes cannot be imaged on this machine.
func supported() error { return errArch }

// features lists nothing.
func features() []whole.Feature { return nil }

// tracer fails in everything.
type tracer struct{}

func newTracer(int) whole.Tracer { return tracer{} }

func (tracer) Attach(pid, rank, oob int, std [3]int) (whole.Target, error) { return nil, errArch }

func (tracer) Restore(whole.RestoreOptions) (*whole.Restored, error) { return nil, errArch }

func (tracer) Close() {}
