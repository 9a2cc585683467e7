// Package twoslots is the rule by which snapshots in the memory of nodes are kept and found again. It is a pure state
// machine: no bytes, clocks or connections.
//
// A holder has a Slots for each piece that it holds (an image, a replica, a parity shard). A shelf has two slots, so
// that a snapshot in the making never costs the one before:
//
//	Begin(8, 7 is complete)   the slot that does not have 7 is given up, and filled
//	Add ... Add               the last part makes it whole here
//	Complete(8)               it is whole everywhere: from now on the slot of 7 may be given up
//
// The rules:
//
//  1. A slot is given up only when its holder has heard that a newer snapshot is complete
//     everywhere. That it has a newer one itself means nothing. So after any failure the newest
//     complete snapshot is whole everywhere.
//  2. A recovery asks all holders which pieces they have whole, and takes the newest snapshot that
//     can be made from the answers, announced or not (Newest). There is no barrier, and nothing to
//     toggle on all nodes at once.
//  3. Each life of the job is told to every holder before its ranks run, with the snapshot that it
//     begins from. The holder drops all other snapshots and refuses parts from earlier lives. A
//     holder that was not told counts only with that one snapshot.
//  4. A parity shard is whole when the parts of all members, all of one snapshot, have come.
//
// A check of all interleavings, with mutants that break each rule, is in model_test.go.
package twoslots

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
)

// Cut names a snapshot: the life that has taken it and its sequence number. The zero Cut is none.
type Cut struct {
	Life uint32
	Seq  uint32
}

// Compare orders cuts of one line of lives, -1 if c is older.
func (c Cut) Compare(d Cut) int {
	return cmp.Or(cmp.Compare(c.Life, d.Life), cmp.Compare(c.Seq, d.Seq))
}

func (c Cut) String() string { return fmt.Sprintf("snapshot %d of life %d", c.Seq, c.Life) }

// MostMembers is the largest number of parts that a piece may consist of.
const MostMembers = 64

// Slots is the room of one piece at one holder. Its zero value belongs to no life: Restart comes first. It is
// comparable, and not safe for concurrent use.
type Slots struct {
	life     uint32
	from     Cut // the life began with it
	complete Cut // the newest that is known to be complete everywhere
	slots    [2]slot
}

// slot is room for one snapshot's piece.
type slot struct {
	cut   Cut    // zero: empty
	left  uint64 // parts that have not come, a bit each
	whole bool
}

// Reasons for errors, for errors.Is.
var (
	ErrStale   = errors.New("it is of an earlier life, or of an attempt that was given up")
	ErrUnknown = errors.New("nobody has begun it here, or its slot was given up")
)

// Restart begins a life with the snapshot that the job goes on from, the zero Cut if it begins
// without one. All other snapshots in the shelf are dropped. A life that is not newer than the
// present one is an error.
func (s *Slots) Restart(life uint32, from Cut) error {
	if life <= s.life {
		return fmt.Errorf("life %d begins after life %d: %w", life, s.life, ErrStale)
	}
	s.life, s.from, s.complete = life, from, from
	for i := range s.slots {
		if sl := &s.slots[i]; !sl.whole || sl.cut != from || from == (Cut{}) {
			*sl = slot{}
		}
	}
	return nil
}

// Begin gives up a slot for a new snapshot's piece, which comes in so many parts, and returns which. complete is the newest
// snapshot that is complete everywhere, as the sender knows.
func (s *Slots) Begin(c, complete Cut, parts int) (int, error) {
	if c.Life != s.life || c.Seq == 0 {
		return 0, fmt.Errorf("%v in life %d: %w", c, s.life, ErrStale)
	}
	if parts < 1 || parts > MostMembers {
		return 0, fmt.Errorf("%v: %d parts, 1 to %d", c, parts, MostMembers)
	}
	for i := range s.slots {
		if s.slots[i].cut.Compare(c) >= 0 {
			return 0, fmt.Errorf("%v after %v: %w", c, s.slots[i].cut, ErrStale)
		}
	}
	s.Complete(complete)
	i := s.spare()
	s.slots[i] = slot{cut: c, left: 1<<parts - 1}
	return i, nil
}

// spare is the slot to give up: not the one with the complete snapshot, otherwise the one that is
// worth less.
func (s *Slots) spare() int {
	a, b := &s.slots[0], &s.slots[1]
	switch {
	case s.keeps(a):
		return 1
	case s.keeps(b):
		return 0
	case a.whole != b.whole:
		return map[bool]int{true: 1, false: 0}[a.whole]
	case b.cut.Compare(a.cut) < 0:
		return 1
	}
	return 0
}

// keeps reports whether a slot must not be given up.
func (s *Slots) keeps(sl *slot) bool { return sl.whole && sl.cut == s.complete }

// Add takes a part of a piece and returns the slot that it belongs into, and whether the piece is whole now. The
// caller has written and checked the part; it asks where with Slot.
func (s *Slots) Add(c Cut, part int) (i int, whole bool, err error) {
	if i, err = s.Slot(c); err != nil {
		return 0, false, err
	}
	sl := &s.slots[i]
	if part < 0 || part >= MostMembers || sl.left&(1<<part) == 0 {
		return 0, false, fmt.Errorf("part %d of %v was there, or is none: %w", part, c, ErrUnknown)
	}
	sl.left &^= 1 << part
	sl.whole = sl.left == 0
	return i, sl.whole, nil
}

// Slot is where a snapshot's piece is, or is being put.
func (s *Slots) Slot(c Cut) (int, error) {
	for i := range s.slots {
		if c != (Cut{}) && s.slots[i].cut == c {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%v: %w", c, ErrUnknown)
}

// Put says that a whole piece of the snapshot that this life began with was made again here, in the slot that it returns.
func (s *Slots) Put(life uint32) (int, error) {
	if life != s.life || s.from == (Cut{}) {
		return 0, fmt.Errorf("life %d, not %d, or it begins with nothing: %w", life, s.life, ErrStale)
	}
	if s.complete != s.from {
		return 0, fmt.Errorf("%v is complete by now: %w", s.complete, ErrStale)
	}
	if i, err := s.Slot(s.from); err == nil {
		return i, nil
	}
	i := s.spare()
	s.slots[i] = slot{cut: s.from, whole: true}
	return i, nil
}

// Complete notes that a snapshot is complete everywhere.
func (s *Slots) Complete(c Cut) {
	if (c.Life == s.life || c == s.from) && c.Compare(s.complete) > 0 {
		s.complete = c
	}
}

// Drop forgets a snapshot that was given up before it was complete.
func (s *Slots) Drop(c Cut) {
	if i, err := s.Slot(c); err == nil && c.Compare(s.complete) > 0 {
		s.slots[i] = slot{}
	}
}

// Missing is how many parts of a snapshot's piece have not come.
func (s *Slots) Missing(c Cut) int {
	if i, err := s.Slot(c); err == nil {
		return bits.OnesCount64(s.slots[i].left)
	}
	return 0
}

// Report is a holder's answer about one shelf.
type Report struct {
	Life  uint32 // that it was told of
	From  Cut    // the life began with it
	Whole []Cut
}

// Report reports the content of the shelf.
func (s *Slots) Report() Report {
	r := Report{Life: s.life, From: s.from}
	for i := range s.slots {
		if s.slots[i].whole {
			r.Whole = append(r.Whole, s.slots[i].cut)
		}
	}
	return r
}
