package virtual

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Send posts requests on a pair's send queue. It returns how many were taken, and why not the next one.
func (m *Machine) Send(id ID, requests []Request) (int, error) {
	p := m.Pairs[id]
	if p == nil {
		return 0, nothing(id)
	}
	if m.phase != running {
		return 0, ErrQuiet
	}
	from := p.Sends.Next
	var err error
	n := 0
	for ; n < len(requests) && err == nil; n++ {
		if err = m.sendable(p, &requests[n]); err != nil {
			break
		}
		p.log(&requests[n])
	}
	if n > 0 {
		m.do(Action{Do: PostSend, ID: id, From: from, To: p.Sends.Next})
	}
	return n, err
}

// room reports whether a send queue takes another request of the program.
func (p *pair) room() bool {
	n := p.Sends.N
	if p.marker {
		n--
	}
	return n < p.Config.SendDepth
}

func (m *Machine) sendable(p *pair, r *Request) error {
	if p.State != provider.ReadyToSend && p.State != provider.Failed {
		return fmt.Errorf("%w: pair %s", provider.ErrState, p.ID)
	}
	if !p.room() {
		return fmt.Errorf("%w: pair %s has %d requests", provider.ErrFull, p.ID, p.Config.SendDepth)
	}
	inline := r.Flags&provider.Inline != 0
	switch {
	case r.Opcode > provider.Read || inline && r.Opcode == provider.Read:
		return fmt.Errorf("%w: %s", provider.ErrRequest, r.Opcode)
	case len(r.Segments) > max(1, p.Config.Segments):
		return fmt.Errorf("%w: %d segments, pair %s allows %d", provider.ErrRequest, len(r.Segments), p.ID, p.Config.Segments)
	case inline && len(r.Data) > p.Config.Inline, !inline && len(r.Data) > 0, inline && len(r.Segments) > 0:
		return fmt.Errorf("%w: %d bytes inline, pair %s allows %d", provider.ErrRequest, len(r.Data), p.ID, p.Config.Inline)
	}
	n := len(r.Data)
	for i := range r.Segments {
		if err := m.usable(&r.Segments[i], p.Domain, r.Opcode == provider.Read); err != nil {
			return err
		}
		n += r.Segments[i].Len
	}
	if n > 0 && r.Opcode >= provider.Write {
		_, err := m.real(p, &r.Remote, r.Off, n)
		return err
	}
	return nil
}

// usable checks a segment.
func (m *Machine) usable(s *Segment, of ID, written bool) error {
	r := m.Regions[s.Region]
	switch {
	case r == nil || r.Void:
		return fmt.Errorf("%w: region %s is closed", ErrKey, s.Region)
	case r.Domain != of:
		return fmt.Errorf("%w: region %s is of domain %s, not %s", ErrKey, s.Region, r.Domain, of)
	case written && r.Access&provider.LocalWrite == 0:
		return fmt.Errorf("%w: region %s is not to be written to", ErrKey, s.Region)
	case s.Off < 0 || s.Len < 0 || s.Off > r.Length || s.Len > r.Length-s.Off:
		return fmt.Errorf("%w: bytes %d to %d of region %s, which has %d", ErrKey, s.Off, s.Off+s.Len, s.Region, r.Length)
	}
	return nil
}

// log appends a request to the log.
func (p *pair) log(r *Request) {
	e := p.Sends.push()
	e.ID, e.Opcode, e.Flags, e.Imm, e.Remote, e.Off = r.ID, r.Opcode, r.Flags, r.Immediate, r.Remote, r.Off
	e.Segments = append(e.Segments, r.Segments...)
	e.Data = append(e.Data, r.Data...)
	if e.message() {
		p.Posted++
	}
	e.Messages = p.Posted
}

// RefusedReceive takes back the receives from number on, of the last PostReceive, which a provider did not take.
func (m *Machine) RefusedReceive(id ID, from uint64) {
	log := m.takes(id)
	n := int(log.Next - from)
	log.unpush(n)
	if s := m.Shared[id]; s != nil {
		s.Posted -= n
	}
}

// RefusedSend takes back the requests from number on, of the last PostSend.
func (m *Machine) RefusedSend(id ID, from uint64) {
	p := m.Pairs[id]
	n := int(p.Sends.Next - from)
	for seq := from; seq < p.Sends.Next; seq++ {
		e := p.Sends.find(seq)
		if e.message() {
			p.Posted--
		}
		if e.Marker {
			p.marker = false
			m.Queues[p.Config.Send].markers--
		}
	}
	p.Sends.unpush(n)
}

// takes returns the log of receives of a pair or shared queue, nil if it has none.
func (m *Machine) takes(id ID) *ring {
	if s := m.Shared[id]; s != nil {
		return &s.Log
	}
	if p := m.Pairs[id]; p != nil && p.Config.Shared == 0 {
		return &p.Takes
	}
	return nil
}

// Receive posts receives on a pair or a shared queue. It returns how many were taken, and why not the next one.
func (m *Machine) Receive(id ID, receives []Receive) (int, error) {
	log := m.takes(id)
	if log == nil {
		return 0, nothing(id)
	}
	if m.phase != running {
		return 0, ErrQuiet
	}
	from := log.Next
	var err error
	n := 0
	for ; n < len(receives); n++ {
		if err = m.receivable(id, &receives[n]); err != nil {
			break
		}
		e := log.push()
		e.ID = receives[n].ID
		e.Segments = append(e.Segments, receives[n].Segments...)
		if s := m.Shared[id]; s != nil {
			s.Posted++
		}
	}
	if n > 0 {
		m.do(Action{Do: PostReceive, ID: id, From: from, To: log.Next})
	}
	return n, err
}

func (m *Machine) receivable(id ID, r *Receive) error {
	var of ID
	var posted, depth, segments int
	if s := m.Shared[id]; s != nil {
		of, posted, depth, segments = s.Domain, s.Posted, s.Depth, s.Segments
	} else {
		p := m.Pairs[id]
		of, posted, depth, segments = p.Domain, p.Takes.N, p.Config.ReceiveDepth, p.Config.Segments
		if p.State == provider.Reset {
			return fmt.Errorf("%w: pair %s", provider.ErrState, id)
		}
	}
	if posted >= depth {
		return fmt.Errorf("%w: %s has %d receives", provider.ErrFull, id, depth)
	}
	if len(r.Segments) > max(1, segments) {
		return fmt.Errorf("%w: %d segments, %s allows %d", provider.ErrRequest, len(r.Segments), id, segments)
	}
	for i := range r.Segments {
		if err := m.usable(&r.Segments[i], of, true); err != nil {
			return err
		}
	}
	return nil
}

// Modify changes the state of a pair; peer goes with ReadyToReceive.
func (m *Machine) Modify(id ID, to provider.State, access provider.Access, peer PeerPair) error {
	p := m.Pairs[id]
	if p == nil {
		return nothing(id)
	}
	if m.phase != running {
		return ErrQuiet
	}
	change := provider.Change{To: to, Access: access}
	switch {
	case to == provider.Failed, to == p.State+1 && to <= provider.ReadyToSend:
	default:
		return fmt.Errorf("%w: pair %s", provider.ErrState, id)
	}
	switch to {
	case provider.Init:
		p.Access = access
	case provider.ReadyToReceive:
		if peer.Life != m.Life {
			now, ok := m.peers[peer.Pair]
			if !ok {
				return fmt.Errorf("%w: %s", ErrNoSuch, peer.Pair)
			}
			peer = now
		}
		p.Peer, change.Peer = peer, peer.Address
	}
	p.State = to
	m.do(Action{Do: Modify, ID: id, Change: change})
	return nil
}
