package snapshot

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// streamsFile lists, within a job's folder, the files that were standard output and error of the job's heads: what is in them has left the
// job, and none of them is a file of the program. The format is that of the tails.
const streamsFile = "streams"

// ErrStreams says that the list of a job's streams cannot be trusted.
var ErrStreams = errors.New("not a list of files")

// AddStreams notes the files that are standard output and error of a job's head, by absolute paths.
func (c *Catalogue) AddStreams(job string, paths ...string) error {
	err := checkJob(job)
	if err == nil {
		err = c.makeJob(job)
	}
	if err == nil {
		err = c.addStreams(job, paths)
	}
	if err != nil {
		return fmt.Errorf("note where the output of job %s goes: %w", job, explain(err))
	}
	return nil
}

func (c *Catalogue) addStreams(job string, paths []string) error {
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return err
	}
	defer l.Close()
	before, err := c.Streams(job)
	if err != nil {
		return err
	}
	after := slices.Clone(before)
	for _, path := range paths {
		if !slices.Contains(after, path) {
			after = append(after, path)
		}
	}
	if len(after) == len(before) {
		return nil
	}
	return writeDurable(filepath.Join(c.JobDir(job), streamsFile), formatPaths(after))
}

// Streams lists the files that were standard output and error of a job's heads.
func (c *Catalogue) Streams(job string) ([]string, error) {
	return readIfThere(filepath.Join(c.JobDir(job), streamsFile), maxTails, c.trust, func(b []byte) ([]string, error) {
		return parsePaths(b, filepath.IsAbs, ErrStreams)
	})
}
