package twoslots

// Reopen returns the shelf of a holder that has come back with what it had: the life that it was told of last, the snapshot which that
// began with, and what is whole in each slot (the zero Cut: nothing).
func Reopen(life uint32, from, complete Cut, whole [2]Cut) Shelf {
	s := Shelf{life: life, from: from, complete: complete}
	for i, c := range whole {
		if c != (Cut{}) {
			s.slots[i] = slot{cut: c, whole: true}
		}
	}
	return s
}

// Damaged forgets a snapshot's piece whose bytes are not what they were.
func (s *Shelf) Damaged(c Cut) {
	if i, err := s.Slot(c); err == nil {
		s.slots[i] = slot{}
	}
}
