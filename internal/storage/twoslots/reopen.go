package twoslots

// Reopen returns the shelf of a holder that has come back with its state: the last life that it was
// told of, the snapshot which that life began with, and the whole snapshot in each slot (the zero
// Cut: none).
func Reopen(life uint32, from, complete Cut, whole [2]Cut) Slots {
	s := Slots{life: life, from: from, complete: complete}
	for i, c := range whole {
		if c != (Cut{}) {
			s.slots[i] = slot{cut: c, whole: true}
		}
	}
	return s
}

// Damaged forgets a snapshot's piece whose bytes have changed.
func (s *Slots) Damaged(c Cut) {
	if i, err := s.Slot(c); err == nil {
		s.slots[i] = slot{}
	}
}
