package virtual

import "github.com/gorun-mpi/gorun/rpi/rdma/provider"

// Restart begins another life of a machine that was Quiet, with a provider that knows nothing of
// it. The actions make all objects again. Book, Learn and Resume follow.
func (m *Machine) Restart() {
	m.phase = restarting
	m.Life++
	m.forget()
	m.actions = m.actions[:0]
	make := func(v Verb, ids []ID) {
		for _, id := range ids {
			m.do(Action{Do: v, ID: id})
		}
	}
	make(MakeDomain, sorted(m.Domains))
	make(MakeQueue, sorted(m.Queues))
	make(MakeShared, sorted(m.Shared))
	for _, id := range sorted(m.Regions) {
		if !m.Regions[id].Void {
			m.do(Action{Do: MakeRegion, ID: id})
		}
	}
	make(MakePair, sorted(m.Pairs))
	for _, q := range m.Queues {
		q.markers = 0
	}
	for _, p := range m.pairs() {
		m.trim(p)
		if p.State != provider.Reset {
			m.do(Action{Do: Modify, ID: p.ID, Change: provider.Change{To: provider.Init, Access: p.Access}})
		}
	}
	for _, s := range m.Shared {
		s.Log.keep(func(e *entry) bool { return !e.Done })
		s.Posted = s.Log.N
	}
}

// trim drops from the logs of a pair finished requests, and those of the layer itself.
func (m *Machine) trim(p *pair) {
	over := 0 // entries up to the last message that was received
	for i := range p.Sends.N {
		if e := p.Sends.at(i); e.message() && p.Final && e.Messages <= p.PeerReceived {
			over = i + 1
		}
	}
	first := p.Sends.Next - uint64(p.Sends.N)
	p.Sends.keep(func(e *entry) bool {
		return !e.Marker && (e.Seq-first >= uint64(over) || e.Opcode == provider.Read)
	})
	p.Takes.keep(func(e *entry) bool { return !e.Done })
	p.marker = false
}

// Resume ends a Restart, when the books of all ranks have been learnt. The actions post the
// unfinished requests.
func (m *Machine) Resume() {
	m.phase = running
	for _, id := range sorted(m.Shared) {
		m.again(id, &m.Shared[id].Log)
	}
	for _, p := range m.pairs() {
		if p.Config.Shared == 0 && p.State != provider.Reset {
			m.again(p.ID, &p.Takes)
		}
	}
	for _, p := range m.pairs() {
		m.replay(p)
	}
}

func (m *Machine) again(id ID, log *ring) {
	if log.N > 0 {
		m.do(Action{Do: PostReceive, ID: id, From: log.Next - uint64(log.N), To: log.Next})
	}
}

// replay goes through the states of a pair and posts its sends.
func (m *Machine) replay(p *pair) {
	to := p.State
	if to == provider.Failed {
		m.do(Action{Do: Modify, ID: p.ID, Change: provider.Change{To: provider.Failed}})
	}
	if to == provider.Failed || to < provider.ReadyToReceive {
		return
	}
	peer, ok := m.peers[p.Peer.Pair]
	if !ok {
		m.strike(p, 0, provider.RetryExceeded)
		return
	}
	p.Peer = peer
	m.do(Action{Do: Modify, ID: p.ID, Change: provider.Change{To: provider.ReadyToReceive, Peer: peer.Address}})
	if to == provider.ReadyToSend {
		m.do(Action{Do: Modify, ID: p.ID, Change: provider.Change{To: provider.ReadyToSend}})
	}
	m.repost(p)
}

// repost posts the log of a pair. A request whose key is void ends it.
func (m *Machine) repost(p *pair) {
	for i := range p.Sends.N {
		if why := m.void(p, p.Sends.at(i)); why != provider.Success {
			m.strike(p, i, why)
			return
		}
	}
	if p.Sends.N > 0 {
		m.do(Action{Do: PostSend, ID: p.ID, From: p.Sends.Next - uint64(p.Sends.N), To: p.Sends.Next})
	}
}

// void tells why a request of the log cannot be done any more.
func (m *Machine) void(p *pair, e *entry) provider.Status {
	n := len(e.Data)
	for i := range e.Segments {
		if m.usable(&e.Segments[i], p.Domain, e.Opcode == provider.Read) != nil {
			return provider.ProtectionError
		}
		n += e.Segments[i].Len
	}
	if n > 0 && e.Opcode >= provider.Write {
		if _, err := m.real(p, &e.Remote, e.Off, n); err != nil {
			return provider.RemoteAccess
		}
	}
	return provider.Success
}

// strike fails a pair at the i-th request of its log. The requests before it complete with Flushed: whether they were done is not known.
func (m *Machine) strike(p *pair, i int, why provider.Status) {
	q := m.Queues[p.Config.Send]
	for k := range p.Sends.N {
		e := p.Sends.at(k)
		status := provider.Flushed
		if k == i {
			status = why
		}
		q.Private = append(q.Private, Completion{ID: e.ID, Pair: p.ID, Opcode: e.Opcode, Status: status})
	}
	p.Sends.keep(func(*entry) bool { return false })
	m.failed(p, why)
	m.do(Action{Do: Modify, ID: p.ID, Change: provider.Change{To: provider.Failed}})
}
