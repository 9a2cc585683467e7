package tcp

import (
	"fmt"
	"syscall"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// readMax bounds the reads from one peer in one Poll. A peer that sends without end then does not starve the
// others.
const readMax = 8

// conn is an established connection to a peer.
type conn struct {
	m    *Module
	peer int
	fd   int
	in   input
	out  output

	look     bool // something may wait to be acknowledged
	watch    watch
	question *question // it waits for an answer; nil: there is none

	// The content of out will be written. Either the connection is on the module's dirty list, or
	// it is blocked and EPOLLOUT is armed, or flush is on the stack.
	dirty    bool
	blocked  bool // the socket took less than it was offered
	armed    bool // EPOLLOUT is among the events waited for; disarmed lazily
	flushing bool // Send, called from an upcall of flush, only appends
	full     bool // Send has answered Full: a Writable is owed
	gone     bool // closed, and Down was called

	err error // writing failed; Poll reads what is left, then calls Down
}

// established makes a connection of a descriptor whose handshake is over. It writes the bytes of first before
// all frames.
func (m *Module) established(peer, fd int, first ...byte) {
	p := m.peer(peer)
	c := &conn{m: m, peer: peer, fd: fd}
	p.state, p.conn = up, c
	m.conns = append(m.conns, c)
	m.adopt(fd, c)
	if err := m.interest(fd, unix.EPOLLIN); err != nil {
		c.breakOff(err)
	}
	if len(first) > 0 {
		c.out.reserve(len(first))
		c.out.bytes(first)
	}
	c.full = p.wanted
	p.wanted = false
	c.flush()
}

// send is Module.Send. It makes no upcalls.
func (c *conn) send(h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	if c.err != nil {
		return rpi.Full
	}
	o := &c.out
	if len(payload) > smallMax && (ref != 0 || o.empty()) {
		return c.sendLarge(h, payload, ref)
	}
	n := rpi.HeaderSize + len(payload)
	if !o.fits(n) {
		c.full = true
		return rpi.Full
	}
	o.reserve(n)
	o.header(h)
	o.bytes(payload)
	if c.blocked || c.flushing {
		return rpi.Taken
	}
	if more && o.w-o.r < c.m.params.batch {
		if !c.dirty {
			c.dirty = true
			c.m.dirty = append(c.m.dirty, c)
		}
		return rpi.Taken
	}
	for !c.blocked && !o.empty() {
		c.write(nil) // nothing is held
	}
	if c.err != nil {
		return rpi.Full
	}
	return rpi.Taken
}

// sendLarge writes from the user's memory, together with the bytes batched before.
func (c *conn) sendLarge(h *rpi.Header, payload []byte, ref rpi.Ref) rpi.SendResult {
	o := &c.out
	if o.n == heldMax || !o.fits(rpi.HeaderSize) {
		c.full = true
		return rpi.Full
	}
	o.reserve(rpi.HeaderSize)
	o.header(h)
	o.hold(payload, ref)
	var done [heldMax]rpi.Ref
	for !c.blocked && !c.flushing && !o.empty() {
		c.write(done[:0]) // nothing was held but this frame, or it were blocked
	}
	switch {
	case c.err != nil:
		return rpi.Full
	case o.empty():
		return rpi.Taken
	case ref == 0:
		o.absorb()
		return rpi.Taken
	}
	return rpi.Held
}

// write writes once. It returns how many bytes it wrote. It appends to done the frames that left with them.
func (c *conn) write(done []rpi.Ref) (int, []rpi.Ref) {
	var n, want int
	var e syscall.Errno
	o := &c.out
	if o.n == 0 {
		p := o.buf[o.r:min(o.w, o.r+writeMax)]
		want = len(p)
		n, e = send(c.fd, p)
	} else {
		want = o.gather(&c.m.vec)
		n, e = c.m.vec.send(c.fd)
	}
	if e == unix.EAGAIN {
		n, e = 0, 0
	}
	if e != 0 {
		c.breakOff(fmt.Errorf("write: %w", e))
		return 0, done
	}
	done = o.advance(n, done)
	if c.wrote(); n < want {
		c.block()
	}
	return n, done
}

// block records that the socket is full and makes epoll report when it no longer is.
func (c *conn) block() {
	if !c.blocked {
		c.blocked = true
		c.m.blocked++
	}
	if !c.armed {
		c.armed = true
		if err := c.m.interest(c.fd, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
			c.breakOff(err)
		}
	}
}

func (c *conn) unblock() {
	if c.blocked {
		c.blocked = false
		c.m.blocked--
	}
}

// flush writes as much as the socket takes, and gives back the payloads that have left. It reports whether
// anything moved.
func (c *conn) flush() (moved bool) {
	if c.flushing || c.err != nil {
		return false
	}
	c.flushing = true
	sink, o := c.m.env.Sink, &c.out
	c.unblock()
	for c.err == nil && !c.blocked {
		if !o.empty() {
			var refs [heldMax]rpi.Ref
			n, done := c.write(refs[:0])
			moved = moved || n > 0
			for _, ref := range done {
				sink.Sent(c.peer, ref)
			}
		}
		if c.full && o.roomy() && c.err == nil {
			c.full = false
			sink.Writable(c.peer) // which may append, so look again
		} else if o.empty() {
			break
		}
	}
	c.flushing = false
	return moved
}

// breakOff records that nothing more can be written. Accepted frames are lost with the peer. What
// the peer has sent before can still be read.
func (c *conn) breakOff(err error) {
	if c.err == nil {
		c.err = err
		c.m.broken = append(c.m.broken, c)
	}
	c.unblock()
	c.out = output{}
}

func (c *conn) ready(events uint32) (moved bool) {
	if events&unix.EPOLLOUT != 0 {
		moved = c.flush()
		if c.out.empty() && c.armed && c.m.interest(c.fd, unix.EPOLLIN) == nil {
			c.armed = false
		}
	}
	if events&^unix.EPOLLOUT != 0 && c.receive() {
		moved = true
	}
	return moved
}

// receive reads arrived bytes. It reports whether anything had; the end of the connection counts.
func (c *conn) receive() (moved bool) {
	for range readMax {
		n, more, e := c.in.read(c.fd, &c.m.vec)
		switch {
		case e == unix.EAGAIN:
			return moved
		case e != 0:
			c.lost(fmt.Errorf("read: %w", e))
			return true
		case n == 0 && (c.in.frame || c.in.w > 0):
			c.lost(fmt.Errorf("%w in the middle of a frame", ErrClosed))
			return true
		case n == 0:
			c.lost(ErrClosed)
			return true
		}
		moved = true
		c.m.hot = c
		if err := c.in.parse(c.peer, c.m.env.Sink); err != nil {
			c.lost(err)
			return true
		}
		if !more {
			break
		}
	}
	return moved
}

// lost closes the connection and tells the engine, once.
func (c *conn) lost(err error) {
	m := c.m
	c.gone = true
	c.err = err
	c.unblock()
	c.in, c.out = input{}, output{}
	c.forget()
	m.unregister(c.fd)
	for i, other := range m.conns {
		if other == c {
			m.conns = append(m.conns[:i], m.conns[i+1:]...)
			break
		}
	}
	if m.hot == c {
		m.hot = nil
	}
	p := m.peer(c.peer)
	p.state, p.conn = down, nil
	m.env.Sink.Down(c.peer, m.naming(c.peer, err))
}
