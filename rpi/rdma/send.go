package rdma

import (
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// takes reports whether a frame can be posted.
func (c *conn) takes() bool {
	return c.state == up && c.credits > 0 && c.slot-c.freed < uint64(c.m.params.depth) && c.room()
}

// room reports whether the send queue takes a request.
func (c *conn) room() bool { return c.posted-c.done < uint64(len(c.uses)) }

// frame sends a frame as one message.
func (c *conn) frame(h *rpi.Header, payload []byte) {
	p := c.compose(kindFrame, payloadAt+len(payload))
	h.Encode(p[frameAt:])
	copy(p[payloadAt:], payload)
	c.credits--
	c.message(p)
}

// compose begins a message in the next slot.
func (c *conn) compose(kind byte, n int) []byte {
	at := int(c.slot%uint64(c.m.params.depth)) * c.m.params.slot
	p := c.slots[at : at+n]
	put(p, kind, c.owed)
	c.owed = 0
	return p
}

// message posts the composed message. A short one does not use its slot up.
func (c *conn) message(p []byte) {
	r := virtual.Request{Opcode: provider.Send}
	if len(p) <= c.m.inline {
		r.Flags, r.Data = provider.Inline, append(c.scratch(), p...)
		c.post(r, useNothing)
	} else {
		r.Segments = []virtual.Segment{{Region: c.region, Off: int(c.slot%uint64(c.m.params.depth)) * c.m.params.slot, Len: len(p)}}
		c.slot++
		c.post(r, useSlot)
	}
	c.messages++
}

// scratch returns the bytes that the request of this place in the batch had the last time.
func (c *conn) scratch() []byte {
	if n := len(c.batch); n < cap(c.batch) {
		return c.batch[:n+1][n].Data[:0]
	}
	return nil
}

// short posts a message without a frame.
func (c *conn) short(kind byte) {
	r := virtual.Request{Opcode: provider.Send, Flags: provider.Inline, Data: append(c.scratch(), make([]byte, shortSize)...)}
	put(r.Data, kind, c.owed)
	c.owed = 0
	c.post(r, useNothing)
	c.messages++
}

// post adds a request to the batch. One in a few is signalled, and so is each that is waited for.
func (c *conn) post(r virtual.Request, u use) {
	r.ID = c.posted
	c.uses[c.posted%uint64(len(c.uses))] = u
	c.posted++
	if c.unsigned++; c.unsigned >= max(1, c.m.params.depth/4) || u == useRead {
		c.unsigned = 0
		r.Flags |= provider.Signalled
	}
	c.batch = append(c.batch, r)
}

// ring posts the batch with one doorbell.
func (c *conn) ring() {
	if len(c.batch) == 0 || c.state != up {
		return
	}
	n, err := c.m.dev.Send(c.pair, c.batch)
	if err == nil && n < len(c.batch) {
		err = provider.ErrFull
	}
	c.batch = c.batch[:0]
	if err != nil {
		c.fail(err)
	}
}

// announce lends a payload to the peer.
func (c *conn) announce(h *rpi.Header, payload []byte, ref rpi.Ref) rpi.SendResult {
	m := c.m
	l := loan{ref: ref}
	if ref != 0 {
		l.region, _ = m.dev.Register(m.domain, payload, provider.RemoteRead) // else through the stage
	}
	region, result := l.region, rpi.Held
	if region == 0 {
		s, err := m.staged(outgoing, c)
		if err != nil {
			c.fail(err)
		}
		if s == nil {
			return rpi.Full
		}
		copy(s.memory, payload)
		region, result, l.ref = s.region, rpi.Taken, 0
	}
	key, err := m.dev.Region(region)
	if err != nil {
		c.fail(err)
		return rpi.Full
	}
	key.Length = len(payload)
	p := c.compose(kindAnnounce, payloadAt+keySize)
	h.Encode(p[frameAt:])
	putKey(p[payloadAt:], &key)
	c.credits--
	c.lent = append(c.lent, l)
	c.message(p)
	return result
}

// staged returns a stage for a connection, nil if another has it.
func (m *Module) staged(which int, c *conn) (*stage, error) {
	s := &m.stages[which]
	if s.user != nil {
		return nil, nil
	}
	if s.region == 0 {
		s.memory = make([]byte, rpi.MaxData)
		access := provider.RemoteRead
		if which == incoming {
			access = provider.LocalWrite
		}
		var err error
		if s.region, err = m.dev.Register(m.domain, s.memory, access); err != nil {
			return nil, err
		}
	}
	s.user = c
	return s, nil
}

// unstage frees a stage. Its waiter is told.
func (m *Module) unstage(which int) {
	m.stages[which].user = nil
	for _, c := range m.all {
		c.writable()
		if c.read.begun && !c.read.posted {
			m.list(c)
		}
	}
}

// sent takes the completion of a request, with which all before it are over.
func (c *conn) sent(number uint64) {
	for c.done <= number && c.done < c.posted {
		switch c.uses[c.done%uint64(len(c.uses))] {
		case useSlot:
			c.freed++
		case useRead:
			c.hasRead()
		}
		c.done++
	}
	c.writable()
	c.m.list(c)
}

// repaid takes back the oldest payload that was lent.
func (c *conn) repaid() {
	l := c.lent[0]
	c.lent = c.lent[:copy(c.lent, c.lent[1:])]
	if l.region == 0 {
		c.m.unstage(outgoing)
		return
	}
	_ = c.m.dev.Close(l.region) // nobody uses it
	c.m.env.Sink.Sent(c.peer, l.ref)
}
