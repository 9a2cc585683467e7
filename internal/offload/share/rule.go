// Package share lets the offload processes of several ranks and jobs of a user have one device in turn, when they need more memory
// than it has. There is no broker. A Table is a folder with a file for each process, its seat; agents read all of them under one lock, and
// come to the same Verdict, as that follows from the seats alone. Each does what concerns its own processes:
//
//	agent A                        folder                        agent B
//	its process asks for memory:
//	 seat A wants .7  -----------> changes --------------------> looks: its process has had its time
//	                               <---------------------------- seat B leaves; B is swapped out
//	 looks: there is room <------- changes <-------------------- seat B holds nothing, and wants .7
//	 seat A holds .7; A goes on
//
// A seat is locked by the process and by its agent. The locks of the dead are free, so that the next reader removes their seats.
package share

import (
	"cmp"
	"slices"
	"time"
)

// Seat is an offload process as all agents of its user see it. Times are of the clock that Now reads.
type Seat struct {
	Name      string        `json:"-"` // of its file
	Device    string        `json:"device"`
	Exclusive bool          `json:"exclusive,omitempty"` // no other process may have the device
	Job       string        `json:"job"`
	Rank      int           `json:"rank"`
	Memory    int64         `json:"memory,omitempty"`  // bytes that the device has; 0: not known yet
	Held      int64         `json:"held,omitempty"`    // bytes that it may use there; 0: it is swapped out, or has no arrays
	Need      int64         `json:"need,omitempty"`    // bytes with which it can go on; more than Held: it waits
	Since     time.Duration `json:"since,omitempty"`   // when it began to wait
	In        time.Duration `json:"in,omitempty"`      // when it got what it holds
	Idle      time.Duration `json:"idle,omitempty"`    // since when it has nothing to do; 0: it has
	Swap      time.Duration `json:"swap,omitempty"`    // what its last swap took, out and in; 0: there was none
	Leaving   bool          `json:"leaving,omitempty"` // it is being swapped out
}

// Waits reports whether it waits for memory.
func (s *Seat) Waits() bool { return s.Need > s.Held }

// The times of the rule.
const (
	swapGuess = 500 * time.Millisecond // a swap, before there was one
	patience  = 20                     // swaps: so much longer does a process stay than its swap takes
	least     = time.Second            // it stays
)

// Quantum is how long it may stay while others wait.
func (s *Seat) Quantum() time.Duration { return max(patience*s.Swap, least) }

// leaves is from when on it may be asked to leave.
func (s *Seat) leaves() time.Duration {
	at := s.In + s.Quantum()
	if s.Waits() {
		at = 0
	} else if s.Idle > 0 {
		at = min(at, s.Idle+cmp.Or(s.Swap, swapGuess))
	}
	return at
}

// rank is the order in which seats leave: first those that wait themselves, then those that are idle, then those that have had their time.
func (s *Seat) rank() int {
	switch {
	case s.Waits():
		return 0
	case s.Idle > 0:
		return 1
	}
	return 2
}

// Verdict says what must happen now.
type Verdict struct {
	Grant  string        // this seat gets what it needs
	Refuse string        // this one needs more than the device has
	Leave  []string      // these are to be swapped out
	Again  time.Duration // the verdict may be another at this time; 0: when a seat changes
}

// Decide says which of a device's seats gets memory, and which ones leave for that. Seats are served in the order in which they began to wait: none overtakes
// one that has waited longer, even if there is room for it. A seat that holds something gets more if that is free. This does not lengthen its quantum. So every
// wait ends: when all seats that hold something have had their quantum, enough of them leave.
//
// If there is room for the seat that has waited longest, it gets it. Else seats leave in this order: those that wait for more themselves, those that have had
// nothing to do for as long as a swap takes, those that have had their quantum. None leaves before as many may leave as are needed.
func Decide(now time.Duration, device string, all []Seat) (v Verdict) {
	first, memory, held := survey(device, all)
	if first == nil {
		return v
	}
	lack := held - first.Held // what others hold: while it is unknown how much there is, first has to be alone
	if memory > 0 {
		lack = held - first.Held + first.Need - memory
	}
	switch {
	case memory > 0 && first.Need > memory:
		v.Refuse = first.Name
		return v
	case first.Leaving: // it has asked for more just before it was to leave
		return v
	case lack <= 0:
		v.Grant = first.Name
		return v
	}
	if s := grows(device, all, memory-held); s != nil {
		v.Grant = s.Name
		return v
	}
	var stay []*Seat
	for i := range all {
		switch s := &all[i]; {
		case s.Device != device || s.Held == 0 || s.Name == first.Name:
		case s.Leaving:
			lack -= s.Held
		default:
			stay = append(stay, s)
		}
	}
	slices.SortFunc(stay, func(a, b *Seat) int {
		return cmp.Or(cmp.Compare(max(a.leaves(), now), max(b.leaves(), now)), a.rank()-b.rank(), cmp.Compare(a.leaves(), b.leaves()),
			cmp.Compare(b.Since, a.Since), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range stay {
		if lack <= 0 {
			break
		}
		v.Leave = append(v.Leave, s.Name)
		if at := s.leaves(); at > now {
			v.Again = at
		}
		lack -= s.Held
	}
	if v.Again > 0 {
		v.Leave = nil
	}
	return v
}

// grows finds a seat that holds something and can have what it wants beside that while no other leaves.
func grows(device string, all []Seat, free int64) (first *Seat) {
	for i := range all {
		s := &all[i]
		if s.Device == device && s.Held > 0 && !s.Leaving && s.Waits() && s.Need-s.Held <= free && (first == nil || s.Since < first.Since) {
			first = s
		}
	}
	return first
}

// survey finds the seat that has waited longest, the device's memory, and how much of it is held.
func survey(device string, all []Seat) (first *Seat, memory, held int64) {
	for i := range all {
		s := &all[i]
		if s.Device != device {
			continue
		}
		held += s.Held
		if s.Memory > 0 && (memory == 0 || s.Memory < memory) {
			memory = s.Memory
		}
		if s.Waits() && (first == nil || cmp.Or(cmp.Compare(s.Since, first.Since), cmp.Compare(s.Name, first.Name)) < 0) {
			first = s
		}
	}
	return first, memory, held
}
