package snapshot

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// finishedFile holds, within a job's folder, the number of the newest snapshot of an incarnation that has ended
// well. Snapshots of later incarnations have higher numbers, and belong to a job that is not finished.
const finishedFile = "finished"

// Finish records that an incarnation has ended well. It took the snapshot, or went on from it and
// took no other. "latest" no longer means this snapshot or older ones of the job. If the snapshot
// lies in no job's folder, nothing is noted.
func (s *Snapshot) Finish() error {
	if !s.inPlace() {
		return nil
	}
	dir := filepath.Dir(s.Dir)
	if s.trust && !s.Own() {
		return nil // it is for its owner to say
	}
	l, err := lockJob(dir)
	if err != nil {
		return fmt.Errorf("finish job %s: %w", s.Schema.Job, err)
	}
	defer l.Close()
	before, err := readFinished(dir, false)
	if err == nil && before < s.Schema.Sequence {
		err = writeDurable(filepath.Join(dir, finishedFile), []byte(strconv.Itoa(s.Schema.Sequence)+"\n"))
	}
	if err != nil {
		return fmt.Errorf("finish job %s: %w", s.Schema.Job, err)
	}
	return nil
}

// Finished reports whether the job has ended well since the snapshot was taken, in an incarnation that it
// belongs to.
func (s *Snapshot) Finished() (bool, error) {
	if !s.inPlace() {
		return false, nil
	}
	n, err := readFinished(filepath.Dir(s.Dir), s.trust)
	return err == nil && s.Schema.Sequence <= n, err
}

// inPlace reports whether the snapshot lies in its job's folder.
func (s *Snapshot) inPlace() bool { return filepath.Base(filepath.Dir(s.Dir)) == s.Schema.Job }

// readFinished returns 0 for a job without an incarnation that has ended well.
func readFinished(dir string, trust bool) (int, error) {
	return readIfThere(filepath.Join(dir, finishedFile), maxSequence, trust, func(b []byte) (int, error) {
		n, ok := parseSeq(strings.TrimSpace(string(b)))
		if !ok {
			return 0, fmt.Errorf("%w: %.40q is not a sequence number: remove the file", ErrSchema, b)
		}
		return n, nil
	})
}
