// Package machine is the protocol of package mirror as a pure state machine: no bytes, clocks or connections. There is
// one for each description and rank. Its inputs are the program's calls, messages of other machines, and what its driver has
// done; its outputs are Actions.
//
//	Enter (Restore was called)           rank                        root (rank 0)
//	   Hello  ------------------------->  |  all are there
//	   <-------------------------- Gather |
//	   check the sums of all that is held
//	   Report ------------------------->  |  choose: the newest epoch that can be made of the answers
//	   <-------------------------- Decide |  a new life, the epoch it begins with, who has what
//	   drop all else; make the own image
//	   Made   ------------------------->  |  all have theirs
//	   <------------------------- Protect |
//	   make what else the placement has this rank hold
//	   Safe   ------------------------->  |  every piece is where it belongs
//	   <------------------------------ Go |
//
//	Start                                 images travel, parts arrive
//	   Ready  ------------------------->  |  the own image and all pieces held here are whole
//	   <------------------------ Complete |  so it is everywhere: only now may older ones be given up
//	   GiveUp ------------------------->  |  or something failed: the epoch is dropped by all, the one before stays
//	   <----------------------------- Drop|
//
// Package twoslots has the rule by which pieces are kept. A death ends the life of the world: its
// messages are void, and each machine enters the next one from the start.
package machine

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// root is the rank that counts answers.
const root = 0

// Kind says what a message is.
type Kind uint8

const (
	Hello Kind = iota
	Gather
	Report
	Decide
	Made
	Protect
	Safe
	Go
	Ready
	Complete
	GiveUp
	Drop
	Cannot
	Refuse
	kinds
)

func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"Hello", "Gather", "Report", "Decide", "Made", "Protect", "Safe", "Go", "Ready", "Complete", "GiveUp", "Drop", "Cannot", "Refuse"}[k]
}

// Msg is what machines of one description send each other.
type Msg struct {
	Kind  Kind         `json:"kind"`
	Cut   twoslots.Cut `json:"cut"`             // Report: the newest that was said to be Ready; Decide: that the life begins with; Ready, Complete, GiveUp, Drop
	Life  uint32       `json:"life,omitempty"`  // Report, Decide
	Lost  twoslots.Cut `json:"lost"`            // Decide: a newer one that cannot be had
	Text  string       `json:"text,omitempty"`  // Hello: how the rank has opened the description; GiveUp, Drop, Refuse: why
	Held  []Held       `json:"held,omitempty"`  // Report
	Where []Where      `json:"where,omitempty"` // Decide
	Times []int64      `json:"times,omitempty"` // Ready: what the epoch has cost this rank; Complete: the maxima
}

// Action is what the driver is to do.
type Action interface{ action() }

// Send sends a message, perhaps to this rank itself.
type Send struct {
	To  int
	Msg Msg
}

// Look checks the sums of all that is held, and answers with Looked.
type Look struct{}

// Make makes pieces of the life's first epoch from those that others hold, and answers with MadeAll. Own: it is the own image.
type Make struct {
	Own   bool
	Names []Name
	Cut   twoslots.Cut
	Where []Where
}

// Resume lets the program go on. Its state is that of Cut; with the zero Cut, what it began with.
type Resume struct{ Cut, Lost twoslots.Cut }

// Completed says that an epoch is complete.
type Completed struct {
	Cut   twoslots.Cut
	Times []int64
}

// Dropped says that an epoch was given up.
type Dropped struct {
	Cut  twoslots.Cut
	Text string
}

// Refused says that the ranks cannot begin.
type Refused struct{ Text string }

// Forget frees a piece that belongs nowhere any more.
type Forget struct{ Name Name }

func (Send) action()      {}
func (Look) action()      {}
func (Make) action()      {}
func (Resume) action()    {}
func (Completed) action() {}
func (Dropped) action()   {}
func (Refused) action()   {}
func (Forget) action()    {}

// step is where a machine stands.
type step uint8

const (
	outside step = iota
	entering
	making
	protecting
	running
)

// Errors, for errors.Is.
var (
	ErrOutside = errors.New("Restore has not returned yet in this life of the world: call it first")
	ErrBusy    = errors.New("the epoch that was started last is not committed yet: call Commit first")
)

// Machine is one rank's part. It is not safe for concurrent use.
type Machine struct {
	rank    int
	plan    *Plan
	step    step
	life    uint32
	from    twoslots.Cut
	lost    twoslots.Cut
	started twoslots.Cut // newest that was started or given up here
	done    twoslots.Cut // newest that is complete everywhere
	gone    twoslots.Cut // newest that was given up
	goneFor string
	said    twoslots.Cut // newest that this rank has said to be Ready
	times   []int64
	shelves map[Name]*twoslots.Slots
	count   counts
	mutant  mutant
}

// mutant is a rule that tests break on purpose.
type mutant uint8

const (
	sound          mutant = iota
	announcesEarly        // root says Complete when all but one are ready
	takesNewest           // root chooses the newest epoch that any member has
	notRolledBack         // a survivor keeps its own newest image
	staleLife             // a life is not told to the shelves
	countsUnderWay        // root chooses a newer epoch that was under way
	slotTooEarly          // a slot is given up for what is only whole here
	olderBase             // an epoch is told by what its own slot had before
)

// New returns the machine of a rank that holds nothing.
func New(rank int) *Machine { return &Machine{rank: rank, shelves: map[Name]*twoslots.Slots{}} }

// Adopt takes over a piece that was found, with its known state.
func (m *Machine) Adopt(n Name, s twoslots.Slots) { m.shelves[n] = &s }

// Held lists the held pieces, whole or not.
func (m *Machine) Held() []Name {
	names := make([]Name, 0, len(m.shelves))
	for n := range m.shelves {
		names = append(names, n)
	}
	return names
}

// Slots tells in which slots whole epochs of a piece are.
func (m *Machine) Slots(n Name) map[int]twoslots.Cut {
	slots := map[int]twoslots.Cut{}
	if s := m.shelves[n]; s != nil {
		for _, c := range s.Report().Whole {
			if i, err := s.Slot(c); err == nil {
				slots[i] = c
			}
		}
	}
	return slots
}

// Enter begins again in a new life of the world, in which this rank has such a plan. text says how it has opened the
// description, which all ranks must do alike.
// again: it is the same life, in which the program goes back once more.
func (m *Machine) Enter(rank int, plan *Plan, text string, again bool) []Action {
	m.rank, m.plan, m.step = rank, plan, entering
	if !again {
		m.count = counts{}
	}
	return []Action{Send{root, Msg{Kind: Hello, Text: text}}}
}

// Looked answers Look: the epochs of pieces whose bytes are not what they were.
func (m *Machine) Looked(bad map[Name][]twoslots.Cut) []Action {
	var held []Held
	for _, n := range ordered(m.shelves) {
		s := m.shelves[n]
		for _, c := range bad[n] {
			s.Damaged(c)
		}
		held = append(held, Held{n, s.Report(), m.done})
	}
	return []Action{Send{root, Msg{Kind: Report, Life: m.life, Cut: m.said, Held: held}}}
}

// decided begins the life that the root has told of.
func (m *Machine) decided(d Msg) []Action {
	m.life, m.from, m.lost = d.Life, d.Cut, d.Lost
	m.started, m.done, m.gone, m.said = d.Cut, d.Cut, twoslots.Cut{}, d.Cut
	for _, n := range m.plan.Held(m.rank) {
		if m.shelves[n] == nil {
			m.shelves[n] = new(twoslots.Slots)
		}
	}
	for n, s := range m.shelves {
		if m.mutant != staleLife && (m.mutant != notRolledBack || n != Image(m.rank)) {
			s.Restart(m.life, m.from) // not newer: told already
		}
	}
	m.step = making
	own := Image(m.rank)
	if m.from == (twoslots.Cut{}) || m.has(own, m.from) {
		return []Action{Send{root, Msg{Kind: Made}}}
	}
	return []Action{Make{true, []Name{own}, m.from, d.Where}}
}

// protect makes what is missing of the pieces that belong here. All ranks have their own images by now.
func (m *Machine) protect() []Action {
	m.step = protecting
	if m.from == (twoslots.Cut{}) {
		return []Action{Send{root, Msg{Kind: Safe}}}
	}
	var missing []Name
	for _, n := range m.plan.Held(m.rank) {
		if !m.has(n, m.from) {
			missing = append(missing, n)
		}
	}
	if missing == nil {
		return []Action{Send{root, Msg{Kind: Safe}}}
	}
	var where []Where
	for r := range m.plan.Ranks {
		where = append(where, Where{Image(r), r})
	}
	return []Action{Make{false, missing, m.from, where}}
}

// MadeAll answers Make: all its pieces are whole, in the slots that Room told.
func (m *Machine) MadeAll(mk Make) ([]Action, error) {
	for _, n := range mk.Names {
		if _, err := m.shelves[n].Put(m.life); err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
	}
	if mk.Own {
		return []Action{Send{root, Msg{Kind: Made}}}, nil
	}
	return []Action{Send{root, Msg{Kind: Safe}}}, nil
}

// Room is the slot for a piece that is being made for the life's first epoch.
func (m *Machine) Room(n Name) (int, error) {
	s := m.shelves[n]
	if s == nil {
		return 0, twoslots.ErrUnknown
	}
	try := *s
	return try.Put(m.life)
}

// has reports whether an epoch of a piece is whole here.
func (m *Machine) has(n Name, c twoslots.Cut) bool {
	if s := m.shelves[n]; s != nil {
		for _, w := range s.Report().Whole {
			if w == c {
				return true
			}
		}
	}
	return false
}

// Life is the description's present life, and the epoch that it began with.
func (m *Machine) Life() (uint32, twoslots.Cut) { return m.life, m.from }

// Running reports whether Restore has returned.
func (m *Machine) Running() bool { return m.step == running }
