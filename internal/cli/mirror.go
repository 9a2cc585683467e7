package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// mirrors reads what -ckpt-mirror, or the level in memory, and -racks say.
func (o *options) mirrors() error {
	if o.racks != "" {
		if o.CkptMirror == "" {
			return errors.New("-racks goes with -ckpt-mirror, or with a level mem")
		}
		f, err := os.Open(string(o.racks))
		if err != nil {
			return fmt.Errorf("-racks: %w", err)
		}
		defer f.Close()
		if o.Racks, err = protect.ReadRacks(f, string(o.racks)); err != nil {
			return fmt.Errorf("-racks: %w", err)
		}
	}
	if o.CkptMirror == "" {
		return nil
	}
	if _, err := spec.ParseMirror(o.CkptMirror); err != nil {
		return fmt.Errorf("-ckpt-mirror: %w", err)
	}
	return nil
}
