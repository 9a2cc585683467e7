// Package standstill finds ranks that wait for each other without end, from each rank's report of
// its waits. It is pure logic: the head asks the ranks (internal/job/head/standstill.go), and tells
// the user.
//
// A rank goes on if the program does something besides waiting, or if one of its waits can end. A
// wait can end if all ranks of one of the sets that it needs go on. A rank in Finalize needs all
// ranks that are not there yet, and sends nothing any more. A rank that these rules do not reach
// from the ranks that do something stands still for good. A receive from any source needs any one
// rank, so it stands still only if all do.
package standstill

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// Rank is the report of one rank.
type Rank struct {
	Moves bool // it does something, or it is not known what it does
	Ended bool // it is in Finalize
	Waits []Wait
}

// Wait is one of a rank's waits.
type Wait struct {
	Needs [][]int // one of these sets, all of its ranks
	Any   bool    // or any other rank
	Free  bool    // or nobody
	Text  string  // for people
}

// Stuck tells which ranks stand still for good.
func Stuck(ranks []Rank) []bool {
	stuck := make([]bool, len(ranks))
	moving := 0
	for i := range ranks {
		if stuck[i] = !ranks[i].Moves; !stuck[i] {
			moving++
		}
	}
	for again := true; again; {
		again = false
		for i := range ranks {
			if stuck[i] && ranks[i].goesOn(stuck, moving) {
				stuck[i], again = false, true
				moving++
			}
		}
	}
	return stuck
}

// goesOn reports whether one of the rank's waits can end while these ranks are stuck, and so many are not.
func (r *Rank) goesOn(stuck []bool, moving int) bool {
	for _, w := range r.Waits {
		if w.Free || w.Any && moving > 0 {
			return true
		}
		for _, set := range w.Needs {
			if !slices.ContainsFunc(set, func(r int) bool { return uint(r) >= uint(len(stuck)) || stuck[r] }) {
				return true
			}
		}
	}
	return false
}

// Report says in lines which ranks wait for which: a cycle if there is one, otherwise all ranks of
// which none can go on before another. It returns nil if no rank waits without end. Ranks that are
// stuck only because they are in Finalize are covered by the ranks that keep them there.
func Report(ranks []Rank) (lines []string) {
	stuck := Stuck(ranks)
	first := slices.IndexFunc(stuck, func(s bool) bool { return s })
	for first >= 0 && first < len(ranks) && (!stuck[first] || len(ranks[first].Waits) == 0) {
		first++
	}
	if first < 0 || first == len(ranks) {
		return nil
	}
	for _, s := range walk(ranks, stuck, first) {
		lines = append(lines, s.String())
	}
	return lines
}

// step is one line of a report.
type step struct {
	rank  int
	on    []int
	any   bool // in place of on
	ended bool // it is in Finalize
	text  string
}

func (s *step) String() string {
	switch {
	case s.ended:
		return fmt.Sprintf("rank %d is in Finalize: it sends and receives nothing any more", s.rank)
	case s.any:
		return fmt.Sprintf("rank %d waits for any rank %s", s.rank, s.text)
	case len(s.on) == 1:
		return fmt.Sprintf("rank %d waits for %d %s", s.rank, s.on[0], s.text)
	}
	return fmt.Sprintf("rank %d waits for one of %s %s", s.rank, wireup.Ranks(s.on), s.text)
}

// walk goes from a stuck rank to those that it waits for, until it meets only visited ranks. If
// each waits for one, the end of the walk is a cycle, and the way to it is left out.
func walk(ranks []Rank, stuck []bool, first int) (steps []step) {
	at := map[int]int{}
	single := true
	for todo := []int{first}; len(todo) > 0; {
		r := todo[0]
		todo = todo[1:]
		if i, met := at[r]; met {
			if single && len(todo) == 0 {
				return steps[i:]
			}
			continue
		}
		at[r] = len(steps)
		if ranks[r].Ended && len(ranks[r].Waits) == 0 {
			steps = append(steps, step{rank: r, ended: true})
			continue
		}
		s := ranks[r].blame(r, stuck)
		steps = append(steps, s)
		next := s.on
		if s.any {
			next = nil
			for other := range ranks {
				if other != r {
					next = append(next, other)
				}
			}
		}
		single = single && len(next) == 1
		todo = append(todo, next...)
	}
	return steps
}

// blame returns one stuck rank of each set that the rank's waits need: the reason why it stands.
func (r *Rank) blame(rank int, stuck []bool) step {
	s := step{rank: rank}
	for _, w := range r.Waits {
		if s.text == "" {
			s.text = w.Text
		}
		if w.Any {
			s.on, s.any, s.text = nil, true, w.Text
			return s
		}
		for _, set := range w.Needs {
			for _, need := range set {
				if stuck[need] {
					if !slices.Contains(s.on, need) {
						s.on = append(s.on, need)
					}
					break
				}
			}
		}
	}
	return s
}
