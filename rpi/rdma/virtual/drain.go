package virtual

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Count is what a pair tells its peer while a checkpoint is taken.
type Count struct {
	From, To         ID
	Posted, Received uint64 // messages, since the pair was made
	Final            bool   // Received grows no more
	Failed           bool
}

// markersAtOnce is how many markers a completion queue has room for, beside the program's completions.
const markersAtOnce = 16

// PeerError says that a pair failed because its peer did not answer while the layer waited for
// requests under way.
type PeerError struct {
	Pair, Peer ID
	Status     provider.Status
}

// Error names the rank.
func (e *PeerError) Error() string {
	return fmt.Sprintf("rdma: pair %s failed while it drained: rank %d (pair %s): %s", e.Pair, e.Peer.Rank(), e.Peer, e.Status)
}

// Quiesce begins a checkpoint.
func (m *Machine) Quiesce() {
	m.phase = quiescing
	for _, p := range m.Pairs {
		p.told, p.Final, p.peerFailed, p.died = false, false, false, false
		p.peerPosted, p.PeerReceived = 0, 0
	}
}

// Counts returns what to tell the peers of all pairs, by rank To.Rank(). It is told again when it has changed.
func (m *Machine) Counts() []Count {
	var list []Count
	for _, p := range m.pairs() {
		if p.Peer.Pair != 0 {
			list = append(list, Count{From: p.ID, To: p.Peer.Pair, Posted: p.Posted, Received: p.Received, Final: m.settled(p), Failed: p.State == provider.Failed})
		}
	}
	return list
}

// Tell notes all counts that a rank has for this one. A pair of which it tells nothing was closed.
func (m *Machine) Tell(rank int, counts []Count) {
	if m.phase != quiescing {
		return
	}
	for _, p := range m.Pairs {
		if p.Peer.Pair != 0 && p.Peer.Pair.Rank() == rank && !p.told {
			p.told, p.peerFailed = true, true // unless one of counts is of it
		}
	}
	for _, c := range counts {
		p := m.Pairs[c.To]
		if p == nil || p.Peer.Pair != c.From {
			continue
		}
		p.peerPosted, p.peerFailed = c.Posted, c.Failed
		if c.Final && !c.Failed { // all requests to a failed pair stay in the log, and fail after a restart: their completions may not have come yet
			p.Final, p.PeerReceived = true, c.Received
		}
	}
	for _, p := range m.pairs() {
		m.mark(p)
	}
}

// settled reports whether a pair receives nothing more.
func (m *Machine) settled(p *pair) bool {
	switch {
	case p.State == provider.Failed:
		return true
	case !p.told:
		return false
	case p.peerFailed:
		return true
	}
	return p.Received >= p.peerPosted || m.posted(p) == 0
}

// posted returns how many receives a message to a pair could take.
func (m *Machine) posted(p *pair) int {
	if s := m.Shared[p.Config.Shared]; s != nil {
		return s.Posted
	}
	return p.Takes.N
}

// mark posts a marker if all messages were received and the last request of a pair will have no completion.
func (m *Machine) mark(p *pair) {
	q := m.Queues[p.Config.Send]
	if !p.Final || p.PeerReceived != p.Posted || p.State != provider.ReadyToSend || p.marker || p.Sends.N == 0 || q.markers == markersAtOnce {
		return
	}
	if last := p.Sends.at(p.Sends.N - 1); last.signalled() {
		return
	}
	e := p.Sends.push()
	e.Opcode, e.Flags, e.Marker, e.Messages = provider.Write, provider.Signalled, true, p.Posted
	p.marker = true
	q.markers++
	m.do(Action{Do: PostSend, ID: p.ID, From: e.Seq, To: e.Seq + 1})
}

// Quiet reports whether nothing moves any more, here. It may post markers. A *PeerError says that a peer has died meanwhile.
func (m *Machine) Quiet() (bool, error) {
	quiet := true
	for _, p := range m.pairs() {
		if p.Peer.Pair == 0 {
			continue
		}
		if p.State == provider.Failed {
			if p.died {
				return false, &PeerError{p.ID, p.Peer.Pair, p.Struck}
			}
			quiet = quiet && m.flushed(p)
			continue
		}
		m.mark(p)
		quiet = quiet && m.settled(p) && m.closed(p)
	}
	return quiet, nil
}

// flushed reports whether all requests of a failed pair have completed.
func (m *Machine) flushed(p *pair) bool { return p.Sends.N == 0 && p.Takes.N == 0 }

// closed reports whether the completions that can come for a pair's sends have come.
func (m *Machine) closed(p *pair) bool {
	if p.Sends.N == 0 || p.peerFailed {
		return true
	}
	if !p.Final {
		return false
	}
	if p.PeerReceived == p.Posted {
		return false
	}
	for i := range p.Sends.N { // up to the first message that finds no receive
		e := p.Sends.at(i)
		if e.Messages > p.PeerReceived {
			return true
		}
		if e.signalled() {
			return false
		}
	}
	return true
}

// Continue ends Quiesce: the job goes on in this process.
func (m *Machine) Continue() { m.phase = running }
