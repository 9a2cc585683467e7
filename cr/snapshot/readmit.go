package snapshot

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Readmit begins a snapshot under the number that it already has: one that comes from another catalogue, or was
// removed from this one. Later snapshots of the job get higher numbers. Errors: fs.ErrExist if there is one of this
// number, whole or being written. What a crash has left of an earlier try goes with Sweep.
func (c *Catalogue) Readmit(job string, seq int, place Place) (*Pending, error) {
	p, err := c.readmit(job, seq, place, nil)
	if err != nil {
		return nil, fmt.Errorf("readmit snapshot %d of job %s: %w", seq, job, err)
	}
	return p, nil
}

// Reserve gives out a number of a job for a snapshot that BeginReserved begins later, or never. It is higher than those given out before, and lower than
// those after it.
func (c *Catalogue) Reserve(job string) (int, error) {
	seq, err := c.reserve(job)
	if err != nil {
		return 0, fmt.Errorf("reserve a number for job %s: %w", job, err)
	}
	return seq, nil
}

func (c *Catalogue) reserve(job string) (int, error) {
	if err := checkJob(job); err != nil {
		return 0, err
	}
	dir := c.JobDir(job)
	l, err := lockJob(dir)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	high, err := c.highest(job)
	if err != nil {
		return 0, err
	}
	if err := writeDurable(filepath.Join(dir, sequenceFile), []byte(strconv.Itoa(high+1)+"\n")); err != nil {
		return 0, err
	}
	return high + 1, nil
}

// BeginReserved is BeginIn for a number that was reserved. Errors: fs.ErrExist if that was begun already.
func (c *Catalogue) BeginReserved(job string, seq int, place Place, nodes []string) (*Pending, error) {
	p, err := c.readmit(job, seq, place, nodes)
	if err != nil {
		return nil, fmt.Errorf("begin snapshot %d of job %s: %w", seq, job, err)
	}
	return p, nil
}

func (c *Catalogue) readmit(job string, seq int, place Place, nodes []string) (*Pending, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	if seq < 1 {
		return nil, fmt.Errorf("%w: sequence %d", ErrSchema, seq)
	}
	if err := c.makeJob(job); err != nil {
		return nil, err
	}
	return c.begin(job, place, nodes, seq)
}

// Verify reads all images that were written and checks them as Snapshot.Verify does, before the snapshot is visible.
// s is what Commit will be given. What the images build on is not looked at, see CheckChain.
func (p *Pending) Verify(s Schema) error {
	if p.lock == nil {
		return fmt.Errorf("verify %s: %w", p.Dir, ErrEnded)
	}
	p.complete(&s)
	if err := s.check(); err != nil {
		return err
	}
	snap, v := &Snapshot{Dir: p.Dir, Schema: &s, open: p.c.open}, &verifier{whole: true}
	for rank := range s.NP {
		v.add(snap, rank)
	}
	return v.run()
}

// CheckChain checks by their schemas that the images of the newest of some snapshots build on the others and on
// nothing else. Errors: ErrChain, ErrSchema.
func CheckChain(all []*Schema) error {
	by, newest := map[int]*Snapshot{}, (*Snapshot)(nil)
	for _, s := range all {
		if by[s.Sequence] != nil {
			return fmt.Errorf("%w: two snapshots %d", ErrSchema, s.Sequence)
		}
		by[s.Sequence] = &Snapshot{Dir: setOf(s.Job, s.Sequence), Schema: s}
		if newest == nil || newest.Schema.Sequence < s.Sequence {
			newest = by[s.Sequence]
		}
	}
	if newest == nil {
		return fmt.Errorf("%w: no snapshot", ErrSchema)
	}
	links, err := newest.walk(func(seq int) (*Snapshot, error) {
		if s := by[seq]; s != nil {
			return s, nil
		}
		return nil, ErrNotFound
	})
	if err == nil && len(links) != len(all) {
		err = fmt.Errorf("%w: %d snapshots, and snapshot %d builds on %d", ErrChain, len(all), newest.Schema.Sequence, len(links)-1)
	}
	return err
}

// Detached is the schema as it is when all images lie beside it. Whether the program is kept is as it was.
func (s *Schema) Detached() *Schema {
	t := s.withCopies([]Copy{{Created: s.Created}})
	return &t
}
