//go:build !(linux && amd64)

package native

import "github.com/gorun-mpi/gorun/cr/whole"

// Restore starts a process that goes on from an image.
func (t *tracer) Restore(o whole.RestoreOptions) (*whole.Restored, error) {
	return nil, errArch
}
