package tcp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// A path between two machines may be cut while both see all others. TCP does not tell for a quarter
// of an hour. So once a second, as long as there is something unacknowledged, the module asks the
// kernel (TCP_INFO). This tells a cut path from a peer that does not read, because its process is
// stopped:
//
//	                          unacked  retransmits  probes  last acknowledgement
//	path cut                  > 0      grows        0       longer and longer ago
//	path cut, window shut     0        0            grows   longer and longer ago
//	peer stopped              0        0            0, 1    starts again with each probe, which its kernel answers
//	slow, or loses much       > 0      0, 1, ...    0       starts again with each packet that gets through
//
// TCP_USER_TIMEOUT cannot tell: it also ends connections to a peer that is only stopped.
//
// Where much is lost a connection is silent for long, too: after some losses in a row it sends
// every ten seconds. So the peer's machine is asked besides, once a second, by the first packet of
// another connection (question). Any answer suffices.

const (
	watchEvery = time.Second
	// askAfter is how long a connection is silent before the peer's machine is asked.
	askAfter = 2 * time.Second
	// surely is how many packets in a row must have been sent in vain. With a delay of a second between two
	// machines the third goes out after ten seconds.
	surely = 3
	// grain is how coarse the kernel's clock may be.
	grain = 10 * time.Millisecond
)

// signs is what the kernel says of a connection.
type signs struct {
	unacked     uint32        // packets on their way
	retransmits uint32        // how often in a row the oldest was sent again
	probes      uint32        // probes of a shut window in a row without an answer
	heard       time.Duration // since the last acknowledgement
}

// watch follows one connection.
type watch struct {
	since time.Time // the first look after which nothing was heard; zero: all is well
}

// look takes what the kernel says now. It returns for how long nothing has come back although something should have,
// or 0. sure reports whether enough was tried.
func (w *watch) look(now time.Time, s signs) (silent time.Duration, sure bool) {
	vain := s.probes
	if s.unacked > 0 {
		vain = max(vain, s.retransmits)
	}
	if vain == 0 {
		w.since = time.Time{}
		return 0, false
	}
	if w.since.IsZero() || s.heard+grain < now.Sub(w.since) {
		w.since = now
	}
	return now.Sub(w.since), vain >= surely
}

// signsOf asks the kernel. A connection that it does not know shows no signs.
func signsOf(fd int) signs {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return signs{}
	}
	return signs{
		unacked: i.Unacked, retransmits: uint32(i.Retransmits), probes: uint32(i.Probes),
		heard: time.Duration(i.Last_ack_recv) * time.Millisecond,
	}
}

// wrote records that a connection has unacknowledged data, so that it will be checked.
func (c *conn) wrote() {
	c.look = true
	c.m.expect()
}

// expect schedules a check a second from now. Between ranks of one machine nothing can be cut.
func (m *Module) expect() {
	if m.env.Wide && m.watchAt.IsZero() {
		m.watchAt = time.Now().Add(watchEvery)
		m.alarm(m.watchAt)
	}
}

// watch looks at all connections that may wait for something, and tells of peers that have been silent for long.
func (m *Module) watch(now time.Time) {
	m.watchAt = time.Time{}
	for _, c := range m.conns {
		if !c.look || c.err != nil {
			continue
		}
		s := signsOf(c.fd)
		silent, sure := c.watch.look(now, s)
		if silent >= askAfter {
			c.ask()
		}
		m.suspect(c.peer, silent, sure)
		if c.look = s.unacked > 0 || s.probes > 0 || c.blocked; c.look {
			m.expect()
		}
	}
	for i, p := range m.peers {
		if p == nil {
			continue
		}
		if p.state != dialing && p.state != pausing || p.began.IsZero() {
			continue
		}
		m.expect()
		if p.heard {
			m.suspect(i, 0, false)
		} else {
			m.suspect(i, now.Sub(p.began), true) // no packet has come back from any of its addresses
		}
	}
}

// question is a connection that is begun to see whether the machine of a peer answers at all.
type question struct {
	c  *conn
	fd int
}

// ask asks once more. The question before has not been answered.
func (c *conn) ask() {
	c.forget()
	m := c.m
	if m.peer(c.peer).addr.port == 0 {
		m.seek(c.peer) // it has connected to us: the next question has the address
		return
	}
	to, ok := peerOf(c.fd)
	if !ok {
		return
	}
	family, sa := sockaddr(netip.AddrPortFrom(to, m.peer(c.peer).addr.port))
	fd, err := m.params.socket(family)
	if err != nil {
		return // it is only a question
	}
	if err = unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		unix.Close(fd)
		return
	}
	q := &question{c, fd}
	if m.register(fd, q, unix.EPOLLOUT) == nil {
		c.question = q
	}
}

// forget closes the question that waits for an answer.
func (c *conn) forget() {
	if c.question != nil {
		c.m.unregister(c.question.fd)
		c.question = nil
	}
}

// ready takes the outcome. A machine without a listener has answered as well.
func (q *question) ready(uint32) bool {
	err := connected(q.fd)
	if q.c.forget(); err == nil || err == unix.ECONNREFUSED {
		q.c.watch.since = time.Now()
		q.c.m.suspect(q.c.peer, 0, false)
	}
	return false
}

// peerOf returns the address at the other end of a connection.
func peerOf(fd int) (netip.Addr, bool) {
	switch sa, _ := unix.Getpeername(fd); sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr), true
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr).Unmap(), true
	}
	return netip.Addr{}, false
}

// suspect tells of a peer that was silent for so long, and once when it no longer is.
func (m *Module) suspect(peer int, silent time.Duration, sure bool) {
	p := m.peer(peer)
	switch {
	case m.env.Suspect == nil:
	case sure && silent >= m.params.suspect:
		p.suspected = true
		m.env.Suspect(peer, silent)
	case p.suspected && silent == 0:
		p.suspected = false
		m.env.Suspect(peer, 0)
	}
}
