package agent

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// lookups are the addresses of ranks that ranks here have asked for. The head's answer to one
// question serves all ranks: it has the addresses of all ranks of that node. Addresses are of one
// incarnation, which an agent may outlive.
type lookups struct {
	mu      sync.Mutex
	known   map[place][]byte  // the book that has it
	waiting map[place][]int32 // ranks here that wait for it
}

// place is where a rank of an incarnation is.
type place struct{ incarnation, rank uint64 }

// lookup takes a rank's question. It returns the answer if that is known, and whether the head is to be asked.
func (l *lookups) lookup(m oob.Msg) (answer *oob.Msg, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{m.Incarnation, m.A}
	if book, ok := l.known[at]; ok {
		return at.answer(m.From, book), false
	}
	if l.waiting == nil {
		l.known, l.waiting = map[place][]byte{}, map[place][]int32{}
	}
	waiting := l.waiting[at]
	if !slices.Contains(waiting, m.From) {
		l.waiting[at] = append(waiting, m.From)
	}
	return nil, len(waiting) == 0
}

// answer is the frame for a rank that has asked.
func (p place) answer(to int32, book []byte) *oob.Msg {
	return &oob.Msg{Kind: oob.Located, From: oob.Head, To: to, Incarnation: p.incarnation, A: p.rank, Data: book}
}

// located takes an answer of the head. It returns the frames for the ranks that have waited.
func (l *lookups) located(m *oob.Msg, size int) (answers []*oob.Msg, err error) {
	book, err := wireup.ParseBook(m.Data, size)
	if err != nil {
		return nil, fmt.Errorf("the address of rank %d: %w", m.A, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		return nil, fmt.Errorf("the address of rank %d, which was not asked for", m.A)
	}
	l.forget(m.Incarnation)
	told := []uint64{m.A}
	for _, sheet := range book {
		for _, r := range sheet.Ranks {
			told = append(told, uint64(r))
		}
	}
	for _, r := range told {
		at := place{m.Incarnation, r}
		l.known[at] = m.Data
		for _, to := range l.waiting[at] {
			answers = append(answers, at.answer(to, m.Data))
		}
		delete(l.waiting, at)
	}
	return answers, nil
}

// forget drops what is known of other incarnations than the one that the head speaks of.
func (l *lookups) forget(incarnation uint64) {
	other := func(p place) bool { return p.incarnation != incarnation }
	maps.DeleteFunc(l.known, func(p place, _ []byte) bool { return other(p) })
}

// begins drops the questions of other incarnations than the one that begins: the head does not
// answer them any more.
func (l *lookups) begins(incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.waiting, func(p place, _ []int32) bool { return p.incarnation != incarnation })
}

// askedWhere takes a rank's Lookup.
func (a *agent) askedWhere(r *rankProc, m oob.Msg) {
	answer, ask := a.lookups.lookup(m)
	if answer != nil {
		r.down.Send(*answer)
	}
	if ask {
		m.To = oob.Head
		a.head.Send(m)
	}
}

// toldWhere takes the head's answer.
func (a *agent) toldWhere(m *oob.Msg) error {
	answers, err := a.lookups.located(m, a.size())
	for _, answer := range answers {
		a.down(answer)
	}
	return err
}

// size is the number of ranks of the job.
func (a *agent) size() int {
	for _, start := range a.order.Start {
		return start.Size
	}
	return 0
}
