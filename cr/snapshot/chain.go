package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
)

// link is a snapshot of a chain, with the ranks whose images need it.
type link struct {
	*Snapshot
	ranks []int
}

// Chain returns the snapshot and all snapshots that its images build on, directly or through others, the newest
// first. A full snapshot is returned alone. The others lie beside it, in the job's folder. The error is
// ErrChain. It names the missing snapshot and the one that needs it.
func (s *Snapshot) Chain() ([]*Snapshot, error) {
	links, err := s.links()
	if err != nil {
		return nil, err
	}
	all := make([]*Snapshot, len(links))
	for i, l := range links {
		all[i] = l.Snapshot
	}
	return all, nil
}

// BasePath returns the path of a rank's image in the snapshot seq of the same job, for an image that builds on
// it and lies beside its schema.
func (s *Snapshot) BasePath(rank, seq int) string {
	return filepath.Join(s.baseDir(seq), ImageFile(rank))
}

func (s *Snapshot) baseDir(seq int) string {
	return filepath.Join(filepath.Dir(s.Dir), strconv.Itoa(seq))
}

// links walks down the chain.
func (s *Snapshot) links() ([]link, error) {
	return s.walk(func(seq int) (*Snapshot, error) { return load(s.baseDir(seq), s.trust) })
}

// walk walks down the chain of snapshots that load finds by their numbers. A base is always older than the images that
// build on it. So taking the newest of the open ones meets each snapshot once.
func (s *Snapshot) walk(load func(seq int) (*Snapshot, error)) ([]link, error) {
	at := link{s, make([]int, s.Schema.NP)}
	for rank := range at.ranks {
		at.ranks[rank] = rank
	}
	chain := []link{at}
	open := map[int][]int{} // sequence -> ranks
	for {
		for _, rank := range at.ranks {
			if base := at.Schema.Images[rank].Base; base > 0 {
				open[base] = append(open[base], rank)
			}
		}
		if len(open) == 0 {
			return chain, nil
		}
		seq := slices.Max(slices.Collect(maps.Keys(open)))
		base, err := load(seq)
		if err == nil {
			base.open = s.open
			err = base.fits(s, seq, open[seq])
		}
		if err != nil {
			return nil, s.chainError(seq, open[seq], err)
		}
		at = link{base, open[seq]}
		slices.Sort(at.ranks)
		chain = append(chain, at)
		delete(open, seq)
	}
}

// fits checks that images of s may build on this snapshot. Only an image of the same incarnation may: after a
// restart the first one is full.
func (base *Snapshot) fits(s *Snapshot, seq int, ranks []int) error {
	b, t := base.Schema, s.Schema
	for _, c := range []struct {
		what      string
		have, say any
	}{
		{"sequence", b.Sequence, seq},
		{"job", b.Job, t.Job},
		{"incarnation", b.Incarnation, t.Incarnation},
		{"number of ranks", b.NP, t.NP},
		{"back-end", b.Backend, t.Backend},
		{"program", b.Program.Digest, t.Program.Digest},
	} {
		if c.have != c.say {
			return fmt.Errorf("%w: its %s is %v instead of %v", ErrSchema, c.what, c.have, c.say)
		}
	}
	for _, rank := range ranks {
		if b.Images[rank].File != ImageFile(rank) {
			return fmt.Errorf("%w: its image of rank %d is called %q", ErrSchema, rank, b.Images[rank].File)
		}
	}
	return nil
}

// chainError says what is missing, for whom, and what can be done.
func (s *Snapshot) chainError(seq int, ranks []int, err error) error {
	who := fmt.Sprintf("rank %d", slices.Min(ranks))
	if n := len(ranks) - 1; n > 0 {
		who += fmt.Sprintf(" and of %d more", n)
	}
	remedy := "bring it back, or restart from an older snapshot"
	if errors.Is(err, ErrNotFound) {
		remedy = "a job's folder is to be copied as a whole; " + remedy
	}
	return fmt.Errorf("%s: %w: the image of %s builds on snapshot %d: %w (%s)", s.Dir, ErrChain, who, seq, err, remedy)
}
