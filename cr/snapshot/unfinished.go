package snapshot

import (
	"errors"
	"fmt"
)

// Unfinished is Candidates for the newest snapshot of those jobs that have not ended well since and
// that fit. fits is asked about the newest schema of each job that can be read. Without any the
// error is an ErrNotFound. doubtful says which jobs cannot be read at all, so that it is unknown
// whether they fit.
func (c *Catalogue) Unfinished(fits func(*Schema) bool) (all []*Snapshot, passed, doubtful []error, err error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, nil, nil, err
	}
	var open []found
	for _, job := range jobs {
		f, ended, err := c.newestOfJob(job)
		switch {
		case errors.Is(err, ErrNotFound): // none is committed
		case err != nil:
			doubtful = append(doubtful, err)
		case !ended && fits(f.snapshot.Schema):
			open = append(open, f)
		}
	}
	s := newestOf(open).snapshot
	if s == nil {
		return nil, nil, doubtful, fmt.Errorf("in %s: %w", c.root, ErrNotFound)
	}
	all, passed, err = c.Candidates(s.Schema.Job)
	return all, passed, doubtful, err
}
