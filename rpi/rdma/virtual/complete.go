package virtual

import "github.com/gorun-mpi/gorun/rpi/rdma/provider"

// Request numbers that a provider sees: the entry's, and whether it is a receive.
const receiveBit = 1 << 63

// Completed takes a real completion of a queue, and returns what the program is to see, if anything. While a checkpoint is taken that goes to the
// private list instead.
func (m *Machine) Completed(of ID, c *provider.Completion) (seen Completion, ok bool) {
	p := m.numbers[c.QueuePair]
	if p == nil {
		return seen, false // closed meanwhile
	}
	if c.ID&receiveBit != 0 {
		seen, ok = m.received(p, c)
	} else {
		seen, ok = m.over(p, c, of)
	}
	if ok && m.phase != running {
		q := m.Queues[of]
		q.Private = append(q.Private, seen)
		return Completion{}, false
	}
	return seen, ok
}

// Take serves a poll from the private list. The program's polls go there first.
func (m *Machine) Take(of ID, dst []Completion) int {
	q := m.Queues[of]
	if q == nil || len(q.Private) == 0 || m.phase != running {
		return 0
	}
	n := copy(dst, q.Private)
	q.Private = q.Private[n:]
	if len(q.Private) == 0 {
		q.Private = nil
	}
	return n
}

// Stored returns how many completions of a queue are in its private list.
func (m *Machine) Stored(of ID) int { return len(m.Queues[of].Private) }

// over strikes a request of the send queue, and all before it.
func (m *Machine) over(p *pair, c *provider.Completion, of ID) (seen Completion, ok bool) {
	e := p.Sends.find(c.ID)
	if e == nil {
		return seen, false
	}
	seen = Completion{ID: e.ID, Pair: p.ID, Opcode: e.Opcode, Status: c.Status, Bytes: int(c.Bytes)}
	ok = !e.Marker && (e.signalled() || c.Status != provider.Success)
	for ; p.Sends.N > 0 && p.Sends.at(0).Seq <= c.ID; p.Sends.pop() {
		if p.Sends.at(0).Marker {
			p.marker = false
			m.Queues[of].markers--
		}
	}
	if c.Status != provider.Success {
		m.failed(p, c.Status)
	}
	return seen, ok
}

// received strikes a receive.
func (m *Machine) received(p *pair, c *provider.Completion) (seen Completion, ok bool) {
	seq := c.ID &^ receiveBit
	log := &p.Takes
	s := m.Shared[p.Config.Shared]
	if s != nil {
		log = &s.Log
	}
	e := log.find(seq)
	if e == nil || e.Done {
		return seen, false
	}
	seen = Completion{ID: e.ID, Pair: p.ID, Opcode: c.Opcode, Status: c.Status, Bytes: int(c.Bytes), Immediate: c.Immediate, HasImmediate: c.HasImmediate}
	e.Done = true
	for log.N > 0 && log.at(0).Done {
		log.pop()
	}
	if s != nil {
		s.Posted--
	}
	if c.Status == provider.Success {
		p.Received++
	} else {
		m.failed(p, c.Status)
	}
	return seen, true
}

// failed records that a pair cannot be used any more.
func (m *Machine) failed(p *pair, why provider.Status) {
	p.State = provider.Failed
	p.died = p.died || m.phase == quiescing && why == provider.RetryExceeded
	if p.Struck == provider.Success || p.Struck == provider.Flushed {
		p.Struck = why
	}
}
