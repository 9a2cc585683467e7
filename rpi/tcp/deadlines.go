package tcp

import (
	"fmt"
	"slices"
	"time"
)

// timer is the endpoint of the timer descriptor: deadlines of handshakes, and
// pauses before another try.
type timer struct{ m *Module }

func (t timer) ready(uint32) bool {
	m := t.m
	now := time.Now()
	if due := m.rang(); !due.IsZero() {
		m.excuse(now.Sub(due))
	}
	m.hush(m.quiesced)
	for _, g := range slices.Clone(m.guests) {
		if g.deadline.After(now) {
			m.alarm(g.deadline)
		} else {
			g.refuse(codeLater) // a rank that was only slow tries again
		}
	}
	if !m.quiesced { // deadlines stand still during a checkpoint
		for i, p := range m.peers {
			if p != nil {
				m.overdue(i, now)
			}
		}
	}
	if m.watchAt.IsZero() {
		return true
	}
	if m.watchAt.After(now) {
		m.alarm(m.watchAt)
	} else {
		m.watch(now)
	}
	return true
}

// excuse puts deadlines off if the timer was late: for so long this rank stood still, such as in a suspended job, or looked at
// nothing. Its peers cannot be blamed for that.
func (m *Module) excuse(late time.Duration) {
	if late < tick {
		return
	}
	off := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(late)
		}
	}
	for _, g := range m.guests {
		off(&g.deadline)
	}
	for _, p := range m.peers {
		if p == nil {
			continue
		}
		off(&p.began)
		off(&p.deadline)
		if p.attempt != nil {
			off(&p.attempt.limit)
		}
	}
	for _, c := range m.conns {
		off(&c.watch.since)
	}
}

// overdue does what the clock demands of the handshake with one peer.
func (m *Module) overdue(peer int, now time.Time) {
	p := m.peer(peer)
	switch p.state {
	case dialing, yielded, pausing:
	default:
		return
	}
	if !p.deadline.After(now) {
		if p.attempt != nil {
			p.attempt.drop(idle)
		}
		m.give(peer, fmt.Errorf("%w by %v within %v: the rank is stopped, cut off, or may open no more files (ulimit -n)", ErrNoAnswer, &p.route, m.params.connectTimeout))
		return
	}
	m.alarm(p.deadline)
	if a := p.attempt; a != nil && a.stage < proving && !a.limit.IsZero() {
		if a.limit.After(now) {
			m.alarm(a.limit)
		} else {
			a.drop(idle)
			m.another(peer, errSlow)
			return
		}
	}
	if p.state == pausing {
		if p.again.After(now) {
			m.alarm(p.again)
		} else {
			m.dial(peer)
		}
	}
}
