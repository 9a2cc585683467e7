package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// Start begins the next epoch and gives the slot for the own image. The epoch may have been given up elsewhere
// already: then gone is true and there is no slot.
func (m *Machine) Start() (c twoslots.Cut, slot int, gone bool, err error) {
	if m.step != running {
		return c, 0, false, ErrOutside
	}
	if m.started.Compare(m.done) > 0 && m.started.Compare(m.gone) > 0 {
		return c, 0, false, fmt.Errorf("epoch %d: %w", m.started.Seq, ErrBusy)
	}
	c = twoslots.Cut{Life: m.life, Seq: m.started.Seq + 1}
	m.started = c
	if m.gone.Compare(c) >= 0 {
		return c, 0, true, nil
	}
	slot, err = m.begin(Image(m.rank), c, m.done, 1)
	return c, slot, false, err
}

// Base is the epoch that the next one may be told by: what has not changed since need not travel. It is the newest that is complete, which every holder
// has whole. After an epoch that was given up it is none: if something is wrong with what is held, the next one mends it. All ranks
// answer alike, because each has heard what has become of the epoch before.
func (m *Machine) Base() twoslots.Cut {
	if m.gone.Compare(m.done) > 0 || !m.has(Image(m.rank), m.done) {
		return twoslots.Cut{}
	}
	if m.mutant == olderBase {
		for _, c := range m.Slots(Image(m.rank)) {
			if c != m.done {
				return c
			}
		}
	}
	return m.done
}

// Told is the slot of the epoch that another one of a piece is told by. It is false if that is not whole here.
func (m *Machine) Told(n Name, base twoslots.Cut) (slot int, ok bool) {
	for i, c := range m.Slots(n) {
		if c == base {
			return i, true
		}
	}
	return 0, false
}

// Part says that a part of a piece is about to arrive, and gives its slot. first: nothing of the epoch was there.
func (m *Machine) Part(n Name, c, complete twoslots.Cut) (slot int, first bool, err error) {
	s := m.shelves[n]
	if s == nil {
		return 0, false, fmt.Errorf("%v is not held here: %w", n, twoslots.ErrUnknown)
	}
	if c.Life == m.life && m.gone.Compare(c) >= 0 {
		return 0, false, fmt.Errorf("%v was given up: %w", c, twoslots.ErrStale)
	}
	if slot, err = s.Slot(c); err == nil {
		return slot, false, nil
	}
	slot, err = m.begin(n, c, complete, len(n.Members()))
	return slot, true, err
}

func (m *Machine) begin(n Name, c, complete twoslots.Cut, parts int) (int, error) {
	s := m.shelves[n]
	if m.mutant == slotTooEarly {
		for _, w := range s.Report().Whole {
			complete = w
		}
	}
	if m.mutant == staleLife {
		s.Restart(c.Life, twoslots.Cut{})
	}
	return s.Begin(c, complete, parts)
}

// Missing is how many parts of a piece have not come.
func (m *Machine) Missing(n Name, c twoslots.Cut) int {
	if s := m.shelves[n]; s != nil {
		return s.Missing(c)
	}
	return 0
}

// Add says that a part is there, checked, and as durable as it is to be.
func (m *Machine) Add(n Name, c twoslots.Cut, part int) ([]Action, error) {
	s := m.shelves[n]
	if s == nil {
		return nil, fmt.Errorf("%v: %w", n, twoslots.ErrUnknown)
	}
	_, whole, err := s.Add(c, part)
	if err != nil || !whole || c.Life != m.life {
		return nil, err
	}
	for _, n := range m.plan.Held(m.rank) {
		if !m.has(n, c) {
			return nil, nil
		}
	}
	if m.said.Compare(c) >= 0 {
		return nil, nil
	}
	m.said = c
	return []Action{Send{root, Msg{Kind: Ready, Cut: c, Times: m.times}}}, nil
}

// Tell sets what Ready tells of this rank's times.
func (m *Machine) Tell(times []int64) { m.times = times }

// Fail says that an epoch cannot be made whole here.
func (m *Machine) Fail(c twoslots.Cut, text string) []Action {
	if c.Life != m.life || m.done.Compare(c) >= 0 || m.gone.Compare(c) >= 0 {
		return nil
	}
	return []Action{Send{root, Msg{Kind: GiveUp, Cut: c, Text: text}}}
}

// Cannot says that this rank cannot begin: no rank does.
func (m *Machine) Cannot(text string) []Action {
	return []Action{Send{root, Msg{Kind: Cannot, Text: text}}}
}

// State is what Commit waits for: the newest epoch that was started here, whether it is complete, and if it was given
// up, why.
func (m *Machine) State() (started, complete twoslots.Cut, gone string) {
	if m.started.Compare(m.done) > 0 && m.gone.Compare(m.started) >= 0 { // perhaps a later one, too, that others had started
		gone = m.goneFor
	}
	return m.started, m.done, gone
}

// counts is what the root counts in one life of the world.
type counts struct {
	hello  map[int]string
	report map[int]answer
	made   map[int]bool
	safe   map[int]bool
	ready  map[int][]int64 // of the epoch that is being made
	cut    twoslots.Cut    // that one
	over   twoslots.Cut    // the newest that was announced or given up
}

// errStray is of messages that this machine does not wait for.
var errStray = errors.New("a message that nobody waits for")

// Receive takes a message of another machine, or of this one.
func (m *Machine) Receive(from int, msg Msg) ([]Action, error) {
	if from < 0 || m.plan == nil || from >= m.plan.Ranks {
		return nil, fmt.Errorf("%v of rank %d: %w", msg.Kind, from, errStray)
	}
	switch msg.Kind {
	case Hello, Report, Made, Safe, Ready, GiveUp, Cannot:
		if m.rank != root {
			return nil, fmt.Errorf("%v of rank %d at rank %d: %w", msg.Kind, from, m.rank, errStray)
		}
		return m.counted(from, msg), nil
	}
	if from != root {
		return nil, fmt.Errorf("%v of rank %d: %w", msg.Kind, from, errStray)
	}
	switch {
	case msg.Kind == Gather && m.step == entering:
		return []Action{Look{}}, nil
	case msg.Kind == Decide && m.step == entering:
		return m.decided(msg), nil
	case msg.Kind == Protect && m.step == making:
		return m.protect(), nil
	case msg.Kind == Go && m.step == protecting:
		m.step = running
		return append(m.sweep(), Resume{m.newest(m.from), m.lost}), nil
	case msg.Kind == Complete && m.step == running:
		return m.completed(msg), nil
	case msg.Kind == Drop && m.step == running:
		return m.dropped(msg), nil
	case msg.Kind == Refuse:
		m.step = outside
		return []Action{Refused{msg.Text}}, nil
	}
	return nil, fmt.Errorf("%v: %w", msg.Kind, errStray)
}

// newest is what the program goes on from.
func (m *Machine) newest(c twoslots.Cut) twoslots.Cut {
	if m.mutant == notRolledBack {
		for _, w := range m.shelves[Image(m.rank)].Report().Whole {
			if w.Compare(c) > 0 {
				c = w
			}
		}
		m.shelves[Image(m.rank)].Restart(m.life, m.from)
	}
	return c
}

// completed records that an epoch is whole everywhere.
func (m *Machine) completed(msg Msg) []Action {
	if msg.Cut.Life != m.life || m.done.Compare(msg.Cut) >= 0 || m.gone == msg.Cut {
		return nil
	}
	m.done = msg.Cut
	for _, s := range m.shelves {
		s.Complete(msg.Cut)
	}
	return append(m.sweep(), Completed{msg.Cut, msg.Times})
}

// sweep forgets pieces that belong elsewhere by now. What the life began with is whole at the right places, or a newer one is.
func (m *Machine) sweep() (a []Action) {
	held := m.plan.Held(m.rank)
	for _, n := range ordered(m.shelves) {
		if !slices.Contains(held, n) {
			delete(m.shelves, n)
			a = append(a, Forget{n})
		}
	}
	return a
}

// dropped records that an epoch was given up.
func (m *Machine) dropped(msg Msg) []Action {
	if msg.Cut.Life != m.life || m.done.Compare(msg.Cut) >= 0 || m.gone.Compare(msg.Cut) >= 0 {
		return nil
	}
	m.gone, m.goneFor = msg.Cut, msg.Text
	for _, s := range m.shelves {
		s.Drop(msg.Cut)
	}
	return []Action{Dropped{msg.Cut, msg.Text}}
}

// counted is the root's part.
func (m *Machine) counted(from int, msg Msg) []Action {
	c := &m.count
	switch msg.Kind {
	case Hello:
		if put(&c.hello, from, msg.Text) == m.plan.Ranks {
			return m.greeted()
		}
	case Report:
		if put(&c.report, from, answer{msg.Life, msg.Cut, msg.Held}) == m.plan.Ranks {
			return m.all(m.choose())
		}
	case Made:
		if put(&c.made, from, true) == m.plan.Ranks {
			return m.all(Msg{Kind: Protect})
		}
	case Safe:
		if put(&c.safe, from, true) == m.plan.Ranks {
			return m.all(Msg{Kind: Go})
		}
	case Cannot:
		return m.all(Msg{Kind: Refuse, Text: fmt.Sprintf("rank %d: %s", from, msg.Text)})
	case Ready:
		return m.ready(from, msg)
	case GiveUp:
		if msg.Cut.Life != m.life || c.over.Compare(msg.Cut) >= 0 {
			return nil
		}
		c.over = msg.Cut
		return m.all(Msg{Kind: Drop, Cut: msg.Cut, Text: fmt.Sprintf("rank %d: %s", from, msg.Text)})
	}
	return nil
}

func put[T any](m *map[int]T, from int, v T) int {
	if *m == nil {
		*m = map[int]T{}
	}
	(*m)[from] = v
	return len(*m)
}

// greeted begins the census, if all have opened the description alike.
func (m *Machine) greeted() []Action {
	defer func() { m.count = counts{} }()
	for _, r := range slices.Sorted(maps.Keys(m.count.hello)) {
		if text, first := m.count.hello[r], m.count.hello[root]; text != first {
			return m.all(Msg{Kind: Refuse, Text: fmt.Sprintf("rank %d has opened it with %s, and rank %d with %s", root, first, r, text)})
		}
	}
	return m.all(Msg{Kind: Gather})
}

// choose decides what the next life begins with.
func (m *Machine) choose() Msg {
	answers := make([]answer, m.plan.Ranks)
	for r, a := range m.count.report {
		if m.mutant == countsUnderWay {
			a.life = 0
		}
		answers[r] = a
	}
	c := choose(m.plan.Ranks, answers)
	if m.mutant == takesNewest {
		for r, a := range answers {
			for _, h := range a.held {
				for _, w := range h.Report.Whole {
					if w.Compare(c.cut) > 0 {
						c.cut, c.where = w, nil
					}
					if w == c.cut {
						c.where = append(c.where, Where{h.Name, r})
					}
				}
			}
		}
	}
	return Msg{Kind: Decide, Life: c.life + 1, Cut: c.cut, Lost: c.lost, Where: c.where}
}

// ready counts the members that have all their pieces of an epoch.
func (m *Machine) ready(from int, msg Msg) []Action {
	c := &m.count
	if msg.Cut.Life != m.life || c.over.Compare(msg.Cut) >= 0 {
		return nil
	}
	if c.cut != msg.Cut {
		c.cut, c.ready = msg.Cut, nil
	}
	need := m.plan.Ranks
	if m.mutant == announcesEarly {
		need = max(1, need-1)
	}
	if put(&c.ready, from, msg.Times) < need {
		return nil
	}
	c.over = msg.Cut
	var most []int64
	for _, times := range c.ready {
		for i, t := range times {
			if i == len(most) {
				most = append(most, t)
			}
			most[i] = max(most[i], t)
		}
	}
	return m.all(Msg{Kind: Complete, Cut: msg.Cut, Times: most})
}

// all sends a message to every rank.
func (m *Machine) all(msg Msg) (a []Action) {
	for r := range m.plan.Ranks {
		a = append(a, Send{r, msg})
	}
	return a
}

// ordered lists names in an order that does not change.
func ordered[T any](shelves map[Name]T) []Name {
	return slices.SortedFunc(maps.Keys(shelves), func(a, b Name) int {
		if a.Parity != b.Parity {
			return a.Parity - b.Parity
		}
		return strings.Compare(a.Of, b.Of)
	})
}
