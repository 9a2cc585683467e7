package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Images in the memory of nodes end with their job. Its head removes their entries at the end. One
// that is killed cannot, so every sweep does: the head of a running job holds each snapshot that it
// has in memory. A set without a hold belongs to a job that is over.

// InMemory reports whether the copy is in the memory of the nodes of a job, which alone can read it.
func (c Copy) InMemory() bool { return c.Store == store.KindMem }

// Lasting is the snapshot without its copies in memory, as if these were not there; nil if it has no others.
func (s *Snapshot) Lasting() *Snapshot {
	stay := slices.DeleteFunc(s.Copies(), Copy.InMemory)
	switch len(stay) {
	case 0:
		return nil
	case len(s.Copies()):
		return s
	}
	t := s.Schema.withCopies(stay)
	t.Images = s.Schema.Images
	return &Snapshot{Dir: s.Dir, Schema: &t, open: s.open, trust: s.trust}
}

// sweepCopies removes what a job that is over had in memory, and what is left beside the schemas of copies that were not ended.
func (c *Catalogue) sweepCopies(job string) (gone []string, err error) {
	stores, err := readStores(c.JobDir(job))
	if err != nil || len(stores.Places) == 0 {
		return nil, err
	}
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	all, _ := c.List(job) // its reader reports what cannot be read
	p := &pruner{c: c}    // of far there is nothing left
	for _, s := range slices.Backward(all) {
		stay := slices.DeleteFunc(s.Copies(), Copy.InMemory)
		if len(stay) == len(s.Copies()) {
			half, e := s.sweepBeside()
			if half {
				gone = append(gone, s.Dir+"/rank-*")
			}
			err = cmp.Or(err, e)
			continue
		}
		swept, e := p.drop(s, stay)
		switch {
		case e != nil && err == nil:
			err = fmt.Errorf("%s was in the memory of a job that is over: %w", s.Dir, e)
		case e != nil || !swept:
		case len(stay) == 0:
			gone = append(gone, s.Dir)
		default:
			gone = append(gone, s.Dir+" in memory")
		}
	}
	return gone, err
}
