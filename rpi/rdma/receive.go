package rdma

import (
	"errors"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

var errMessage = errors.New("a corrupt message")

// came takes a message that has arrived.
func (c *conn) came(buffer, bytes int) {
	c.got++
	c.waiting = append(c.waiting, arrival{buffer, bytes})
	c.m.list(c)
}

// work does all possible work now, and leaves the rest to a later Poll.
func (c *conn) work() (moved bool) {
	if c.state == down {
		return false
	}
	if c.state == known && len(c.waiting) > 0 {
		c.rise() // who sends knows that it is known here
	}
	if c.read.begun && !c.read.posted {
		c.startRead()
	}
	moved = c.deliver()
	for ; c.dones > 0 && c.room(); c.dones-- {
		c.short(kindDone)
	}
	if c.owed >= max(1, c.m.params.depth/2) && !c.m.attempt.quiesced && c.room() {
		c.short(kindCredit)
	}
	c.ring()
	if !c.waits() {
		c.m.list(c)
	}
	return moved
}

// waits reports whether there is nothing to do before something comes.
func (c *conn) waits() bool {
	switch {
	case c.state == down:
		return true
	case c.read.begun:
		return c.read.posted || !c.room() || c.m.stages[incoming].user != nil
	}
	return len(c.waiting) == 0 && (c.dones == 0 || !c.room()) && len(c.batch) == 0
}

// idle reports whether nothing of this side is under way except completions.
func (c *conn) idle() bool {
	return len(c.batch) == 0 && len(c.lent) == 0 && !c.read.begun && len(c.waiting) == 0 && c.dones == 0
}

// deliver gives the engine arrived messages, until it has had enough or a payload has to be read.
func (c *conn) deliver() (moved bool) {
	for c.state == up && !c.read.begun && len(c.waiting) > 0 {
		a := c.waiting[0]
		c.waiting = c.waiting[:copy(c.waiting, c.waiting[1:])]
		enough := c.take(c.m.buffers[a.buffer].memory[:a.bytes])
		c.m.free = append(c.m.free, a.buffer)
		moved = true
		if enough {
			break
		}
	}
	return moved
}

// take acts upon one message.
func (c *conn) take(p []byte) (enough bool) {
	var msg message
	if !msg.parse(p) || msg.kind == kindDone && len(c.lent) == 0 {
		c.fail(errMessage)
		return false
	}
	c.credits += msg.credits
	switch sink := c.m.env.Sink; msg.kind {
	case kindFrame:
		c.owed++
		err := sink.Deliver(c.peer, &msg.h, msg.payload)
		if enough = rpi.IsEnough(err); err != nil && !enough {
			c.fail(err)
		}
	case kindAnnounce:
		c.owed++
		dst, err := sink.Begin(c.peer, &msg.h)
		if err != nil {
			c.fail(err)
			return false
		}
		c.read = read{begun: true, dst: dst, key: msg.key}
		c.startRead()
	case kindDone:
		c.repaid()
	}
	if msg.credits > 0 {
		c.writable()
	}
	return enough
}

// startRead reads an announced payload. If it cannot begin, the next Poll tries again.
func (c *conn) startRead() {
	m, r := c.m, &c.read
	if len(r.dst) == 0 {
		c.endRead()
		return
	}
	if !c.room() {
		return
	}
	region, _ := m.dev.Register(m.domain, r.dst, provider.LocalWrite) // else through the stage
	r.region = region
	if region == 0 {
		s, err := m.staged(incoming, c)
		if err != nil {
			c.fail(err)
		}
		if s == nil {
			return
		}
		region = s.region
	}
	r.posted, r.number = true, c.posted
	r.key.Life = m.dev.Life
	c.post(virtual.Request{Opcode: provider.Read, Segments: []virtual.Segment{{Region: region, Len: len(r.dst)}}, Remote: r.key}, useRead)
	c.ring()
}

// hasRead takes the end of a read.
func (c *conn) hasRead() {
	m, r := c.m, &c.read
	if r.region != 0 {
		_ = m.dev.Close(r.region) // nothing lands there any more
	} else {
		copy(r.dst, m.stages[incoming].memory)
		m.unstage(incoming)
	}
	c.endRead()
}

// endRead ends the frame, and has the peer told.
func (c *conn) endRead() {
	c.read = read{}
	c.dones++
	c.m.env.Sink.End(c.peer)
	c.m.list(c)
}
