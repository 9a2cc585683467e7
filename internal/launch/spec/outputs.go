package spec

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// SharedOutputs warns of a snapshot that cannot be restarted with -files refuse because several
// ranks write to one file. A warning now is better than a failure after a death. The restart reports
// whatever else is wrong with it.
func SharedOutputs(s *snapshot.Snapshot) string {
	by, err := whole.Find(s.Schema.Backend)
	if err != nil {
		return "" // portable images
	}
	if sh, ok := by.(whole.Sharer); ok {
		err = sh.Shared(imagesOf(s))
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("warning: snapshot %d cannot be restarted with -files refuse, the default, also not by -restarts: %v", s.Schema.Sequence, err)
}

// FirstOutput is a file that a rank of the snapshot was writing to, "" if none was.
func FirstOutput(s *snapshot.Snapshot) (string, error) {
	by, err := whole.Find(s.Schema.Backend)
	if err != nil {
		return "", err
	}
	o, ok := by.(whole.Outputs)
	if !ok {
		return "", nil
	}
	first := ""
	err = Read(s, func(images []image.Source) error {
		for rank, im := range images {
			files, err := o.Outputs(im)
			if err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			if len(files) > 0 {
				first = files[0]
				return nil
			}
		}
		return nil
	})
	return first, err
}
