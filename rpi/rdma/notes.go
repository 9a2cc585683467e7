package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
	"golang.org/x/sys/unix"
)

// pace is when notes are sent again.
type pace struct {
	at   time.Time // zero: no answer is waited for
	step time.Duration
}

const (
	paceFirst = 5 * time.Millisecond
	paceLast  = 200 * time.Millisecond
)

// hurry has notes sent again soon.
func (p *pace) hurry(m *Module) {
	p.step = paceFirst
	p.set(m)
}

func (p *pace) set(m *Module) {
	p.at = time.Now().Add(p.step)
	m.timer(p.step)
}

// told is what a peer has told in an attempt to take a checkpoint.
type told struct {
	nonce            uint64 // of the peer's attempt
	idle             bool   // the rest was said in this rank's attempt
	posted, received uint64
}

// listen opens the socket for notes and writes this rank's address.
func (m *Module) listen() error {
	places, err := m.places()
	if err != nil {
		return err
	}
	any := places[0]
	if m.env.Wide {
		any = netip.IPv4Unspecified()
		for _, ip := range places {
			if ip.Is6() {
				any = netip.IPv6Unspecified() // which takes IPv4, too
			}
		}
	}
	if err := m.open(); err != nil {
		return fmt.Errorf("rdma: %w", err)
	}
	family := unix.AF_INET
	if any.Is6() {
		family = unix.AF_INET6
	}
	if m.ctl, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		m.ctl = -1
		return fmt.Errorf("rdma: %w", os.NewSyscallError("socket", err))
	}
	m.six = any.Is6()
	if err := unix.Bind(m.ctl, sockaddr(m.six, any, 0)); err != nil {
		return fmt.Errorf("rdma: %s: %w", any, os.NewSyscallError("bind", err))
	}
	m.bell.queue = m.dev.Descriptor(m.queue)
	m.own = address{order: endian.Name, port: portOf(m.ctl), depth: m.params.depth, provider: m.kind, network: m.info.Network, at: places, links: m.links()}
	return nil
}

// places returns the addresses at which this rank hears notes.
func (m *Module) places() (list []netip.Addr, err error) {
	if !m.env.Wide {
		if m.env.Host == "" {
			return []netip.Addr{ifaddr.Loopback()}, nil
		}
		ip, err := netip.ParseAddr(m.env.Host)
		if err != nil {
			return nil, fmt.Errorf("rdma: host %q is not an IP address", m.env.Host)
		}
		return []netip.Addr{ip.Unmap()}, nil
	}
	all, err := ifaddr.Addresses(nil)
	for _, a := range all {
		if len(list) < addressMax {
			list = append(list, a.IP)
		}
	}
	if err == nil && len(list) == 0 {
		err = errors.New("this machine has no address that other machines could reach")
	}
	if err != nil {
		return nil, fmt.Errorf("rdma: %w", err)
	}
	return list, nil
}

func sockaddr(six bool, ip netip.Addr, port uint16) unix.Sockaddr {
	if six {
		return &unix.SockaddrInet6{Port: int(port), Addr: ip.As16()}
	}
	return &unix.SockaddrInet4{Port: int(port), Addr: ip.As4()}
}

// portOf returns the port that a socket is bound to, 0 if to none.
func portOf(fd int) uint16 {
	switch sa, _ := unix.Getsockname(fd); sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port)
	case *unix.SockaddrInet6:
		return uint16(sa.Port)
	}
	return 0
}

// tell sends the peer a note of a connection.
func (c *conn) tell(flags noteFlags) {
	m := c.m
	own, err := m.dev.Pair(c.pair)
	if err != nil || c.state == down {
		return
	}
	n := note{flags: flags, from: m.env.Rank, to: c.peer, incarnation: m.env.Incarnation, pair: c.pair, domain: m.domain, depth: m.params.depth,
		nonce: m.attempt.nonce, echo: c.told.nonce, posted: c.messages, received: c.got, address: own.Address}
	if c.state >= known {
		n.yours = c.theirs.Pair
	}
	if m.attempt.quiesced {
		n.flags |= noteQuiesced
		if c.idle() {
			n.flags |= noteIdle
		}
	}
	c.said = n
	p := n.encode(m.env.Secret)
	for _, ip := range m.peers[c.peer].at {
		if m.six || ip.Is4() {
			_ = unix.Sendto(m.ctl, p, unix.MSG_NOSIGNAL, sockaddr(m.six, ip, m.peers[c.peer].port)) // it is sent again
		}
	}
}

// hear takes notes, and sends those again that have had no answer.
func (m *Module) hear() {
	if !m.heard.Load() && m.pace.at.IsZero() && !m.attempt.quiesced && m.polls%64 != 0 || m.peers == nil || m.ctl < 0 {
		return
	}
	m.heard.Store(false)
	var p [noteMax]byte
	for {
		n, err := unix.Read(m.ctl, p[:])
		if err != nil {
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNREFUSED) { // of an earlier note
				continue
			}
			break
		}
		if said, ok := decodeNote(p[:n], m.env.Secret); ok && said.to == m.env.Rank && said.incarnation == m.env.Incarnation && said.from != said.to && m.Reaches(said.from) {
			m.note(&said)
		}
	}
	m.again()
}

// note acts upon a note.
func (m *Module) note(n *note) {
	c := m.conns[n.from]
	if c == nil {
		if m.attempt.quiesced {
			return // the peer asks again
		}
		if c = m.connect(n.from); c == nil {
			return
		}
	}
	if c.state == down || c.state >= known && n.pair != c.theirs.Pair {
		return
	}
	if c.state == greeting && !m.attempt.frozen {
		c.meet(virtual.PeerPair{Pair: n.pair, Domain: n.domain, Life: m.dev.Life, Address: append([]byte(nil), n.address...)}, n.depth)
	}
	if c.state == known && n.yours == c.pair {
		c.rise()
		c.tell(0) // so that the peer knows as well
	}
	c.told.nonce = n.nonce
	c.told.idle = m.attempt.quiesced && n.echo == m.attempt.nonce && n.flags&noteIdle != 0
	c.told.posted, c.told.received = n.posted, n.received
	if n.flags&noteAsk != 0 {
		c.tell(0)
	}
}

// again sends notes again if it is time, and says what has changed while a checkpoint is taken.
func (m *Module) again() {
	due := !m.pace.at.IsZero() && !time.Now().Before(m.pace.at)
	waits := false
	for _, c := range m.all {
		if !c.asks() {
			continue
		}
		waits = true
		if due {
			c.tell(noteAsk)
		}
	}
	switch {
	case !waits:
		m.pace.at = time.Time{}
		m.timer(0)
	case due:
		m.pace.step = min(2*m.pace.step, paceLast)
		m.pace.set(m)
	case m.pace.at.IsZero():
		m.pace.hurry(m)
	}
	m.speak()
}

// asks reports whether a connection waits for a note.
func (c *conn) asks() bool {
	if c.m.attempt.quiesced {
		return c.state == up && !c.level()
	}
	return c.starved && c.state < up
}

// speak tells peers what has changed while a checkpoint is taken.
func (m *Module) speak() {
	if !m.attempt.quiesced {
		return
	}
	for _, c := range m.all {
		s := &c.said
		if c.state == up && (s.posted != c.messages || s.received != c.got || s.nonce != m.attempt.nonce || s.echo != c.told.nonce ||
			s.flags&noteIdle != 0 != c.idle() || s.yours != c.theirs.Pair) {
			c.tell(0)
		}
	}
}

// level reports whether nothing can be under way between both ranks.
func (c *conn) level() bool {
	return c.idle() && c.told.idle && c.told.posted == c.got && c.told.received == c.messages
}
