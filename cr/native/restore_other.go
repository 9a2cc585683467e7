//go:build !(linux && amd64)

package native

// Restore starts a process that goes on from an image.
func (t *Tracer) Restore(o RestoreOptions) (*Restored, error) {
	return nil, &RestoreError{Rank: o.Rank, Image: o.Image, Err: errArch}
}
