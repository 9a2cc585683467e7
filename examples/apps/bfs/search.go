package main

import (
	"errors"

	"github.com/gorun-mpi/gorun/mpi"
)

const (
	batch    = 256 // visits in a message
	receives = 4   // persistent ones
	sends    = 64  // on their way at once, before a rank waits for one to arrive
)

// visit tells the owner of a vertex that an edge leads to it.
type visit struct{ To, From int }

// search is breadth first.
type search struct {
	*graph
	parents  []int // of this rank's vertices; -1: not reached
	frontier []int // the vertices of the last level
	next     []int // those of the level that is being searched
	out      [][]visit
	in       [receives][]visit
	posted   [receives]*mpi.Persistent
	active   []mpi.Request // first the receives, then sends, then perhaps the barrier
}

func newSearch(g *graph) (*search, error) {
	s := &search{graph: g, parents: make([]int, g.hi-g.lo), out: make([][]visit, g.c.Size())}
	for i := range s.posted {
		s.in[i] = make([]visit, batch)
		var err error
		if s.posted[i], err = mpi.RecvInit(g.c, s.in[i], mpi.AnySource, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// from makes the tree of all vertices that can be reached from root.
func (s *search) from(root int) error {
	for i := range s.parents {
		s.parents[i] = -1
	}
	s.frontier, s.next = s.frontier[:0], s.next[:0]
	if s.lo <= root && root < s.hi {
		s.reach(visit{root, root})
	}
	for {
		s.frontier, s.next = s.next, s.frontier[:0]
		reached, err := mpi.AllreduceValue(s.c, len(s.frontier), mpi.Sum)
		if reached == 0 || err != nil {
			return err
		}
		if err := s.level(); err != nil {
			return err
		}
	}
}

// reach notes that an edge leads to a vertex of this rank.
func (s *search) reach(v visit) {
	if s.parents[v.To-s.lo] < 0 {
		s.parents[v.To-s.lo] = v.From
		s.next = append(s.next, v.To)
	}
}

// level follows all edges at the frontier of all ranks.
func (s *search) level() error {
	s.active = make([]mpi.Request, receives, receives+sends+1)
	if err := mpi.Startall(s.posted[:], s.active); err != nil {
		return err
	}
	if err := s.follow(); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	return s.withdraw()
}

// follow follows the edges of this rank's frontier.
func (s *search) follow() error {
	for _, v := range s.frontier {
		for _, w := range s.at(v) {
			to := s.owner(w)
			if to == s.c.Rank() {
				s.reach(visit{w, v})
				continue
			}
			if s.out[to] = append(s.out[to], visit{w, v}); len(s.out[to]) == batch {
				if err := s.send(to); err != nil {
					return err
				}
			}
		}
	}
	for to := range s.out {
		if len(s.out[to]) > 0 {
			if err := s.send(to); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle waits until what was sent has met a receive, on this rank and then on all.
func (s *search) settle() error {
	for len(s.active) > receives {
		if _, err := s.wait(); err != nil {
			return err
		}
	}
	b, err := mpi.Ibarrier(s.c)
	if err != nil {
		return err
	}
	s.active = append(s.active, b)
	for ended := false; !ended; {
		if ended, err = s.wait(); err != nil {
			return err
		}
	}
	return nil
}

// send sends what is for a rank.
func (s *search) send(to int) error {
	r, err := mpi.Issend(s.c, s.out[to], to, 0)
	if err != nil {
		return err
	}
	s.active, s.out[to] = append(s.active, r), make([]visit, 0, batch)
	for len(s.active) > receives+sends {
		if _, err := s.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until something has completed: a message has come, which is read, or something else, which it reports.
func (s *search) wait() (other bool, err error) {
	i, st, err := mpi.Waitany(s.active)
	if err != nil {
		return false, err
	}
	if i >= receives {
		last := len(s.active) - 1
		s.active[i] = s.active[last]
		s.active = s.active[:last]
		return true, nil
	}
	s.read(i, st)
	s.active[i], err = s.posted[i].Start()
	return false, err
}

// read reads the message in a receive.
func (s *search) read(i int, st mpi.Status) {
	for _, v := range s.in[i][:mpi.CountOf[visit](st)] {
		s.reach(v)
	}
}

// withdraw ends the receives. A message that was met by one is read even now: its sender only knows that it was met.
func (s *search) withdraw() error {
	for i, r := range s.active {
		if err := r.Cancel(); err != nil {
			return err
		}
		switch st, err := r.Wait(); {
		case err == nil:
			s.read(i, st)
		case !errors.Is(err, mpi.ErrCanceled):
			return err
		}
	}
	return nil
}
