package spec

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// SharedFiles lists the files that several ranks of a snapshot write to. The error names those that a restart cannot bring
// back to what they were.
func SharedFiles(s *snapshot.Snapshot) (files []whole.SharedFile, err error) {
	err = Read(s, func(images []image.Source) error {
		files, err = SharedIn(s.Schema.Backend, images)
		return err
	})
	return files, err
}

// SharedIn is SharedFiles for the images of one back-end.
func SharedIn(backend string, images []image.Source) ([]whole.SharedFile, error) {
	by, err := whole.Find(backend)
	if err != nil {
		return nil, err
	}
	if sh, ok := by.(whole.Sharer); ok {
		return sh.Shared(images)
	}
	return nil, nil
}

// Outputs lists the files that the ranks of a snapshot were writing to.
func Outputs(s *snapshot.Snapshot) (all []string, err error) {
	by, err := whole.Find(s.Schema.Backend)
	if err != nil {
		return nil, err
	}
	o, ok := by.(whole.Outputs)
	if !ok {
		return nil, nil
	}
	err = Read(s, func(images []image.Source) error {
		all = nil
		for rank, im := range images {
			files, err := o.Outputs(im)
			if err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			all = append(all, files...)
		}
		return nil
	})
	return all, err
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
