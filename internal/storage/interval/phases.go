package interval

import "time"

// Phases is the head's side of the measurement: a pure state machine. When another phase begins
// each node gets a numbered question. Nodes that have measured something answer with the loss of
// their ranks in the phase that has ended.
//
//	Enter  ->  ask all nodes: 7, writing begins
//	Enter  ->  ask all nodes: 8, quiet begins
//	Told 8, node 1: 30 ms
//	Told 8, node 2: 20 ms  ->  writing has cost the job 47 ms
type Phases struct {
	now    Phase
	number uint32
	since  time.Duration
	asks   map[uint32]*asked
}

// asked is a question that not all nodes have answered.
type asked struct {
	of      Phase
	missing int
	known   bool
	lost    Together
}

// Beside says which work goes on beside the ranks.
type Beside struct {
	Still   bool // the ranks stand
	Writing bool // a checkpoint is written, and its copies and shards are made
	Copying bool // a checkpoint is copied to a slower level
	Mending bool // copies are made again after a loss
}

// phase is the phase that it counts as: if several apply, the first of these.
func (b Beside) phase() Phase {
	switch {
	case b.Still:
		return Still
	case b.Writing:
		return Behind
	case b.Copying:
		return Copying
	case b.Mending:
		return Mending
	}
	return Quiet
}

// Enter takes the work that goes on beside the ranks from now on. If that is another phase begun is
// true, and every node must be asked.
func (p *Phases) Enter(b Beside, nodes int, now time.Duration) (number uint32, next Phase, begun bool) {
	next = b.phase()
	if next == p.now && p.number > 0 {
		return p.number, next, false
	}
	was, since := p.now, p.since
	p.now, p.since = next, now
	p.number++
	if was.Costs() && nodes > 0 {
		if p.asks == nil {
			p.asks = map[uint32]*asked{}
		}
		p.asks[p.number] = &asked{of: was, missing: nodes, known: true, lost: Together{Span: now - since}}
	}
	return p.number, next, true
}

// Lost is the cost of a phase to a job.
type Lost struct {
	Phase  Phase
	Number uint32 // of the question that has ended it
	Time   time.Duration
	Known  bool // by all nodes
}

// Told takes a node's answer. If it was the last one all is true, and it returns the cost of the
// phase.
func (p *Phases) Told(number uint32, lost time.Duration, known bool) (l Lost, all bool) {
	q := p.asks[number]
	if q == nil {
		return l, false
	}
	q.lost.Add(lost)
	q.known = q.known && known
	if q.missing--; q.missing > 0 {
		return l, false
	}
	delete(p.asks, number)
	return Lost{q.of, number, q.lost.Lost(), q.known}, true
}

// Owed reports whether nodes owe an answer.
func (p *Phases) Owed() bool { return len(p.asks) > 0 }
