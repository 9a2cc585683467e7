package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/rpi"
)

// directMax is the largest number of connections that Poll reads one by one. With more it asks epoll which are
// ready.
const directMax = 3

// Module is the TCP transport of one rank. It is the rank's rpi.Waiter, too.
type Module struct {
	events
	env    rpi.Env
	params params
	lfd    int              // the listener
	hushed bool             // the listener is not waited for
	at     []ifaddr.Address // where it listens, as published
	limits limits
	nics   func(wanted func(string, netip.Addr) bool) ([]ifaddr.Address, error)

	answers  answers
	known    []bool  // by rank: it runs tcp, so it is reached
	peers    []*peer // by rank; nil: nothing is known of it yet, as of most in a large job
	conns    []*conn // the connections that are up
	guests   []*guest
	attempts int // peers in state dialing

	hot     *conn   // the connection that last received something
	dirty   []*conn // connections with bytes held back by "more"
	blocked int     // connections whose socket is full
	broken  []*conn // connections whose writing failed; Poll calls Down
	failed  []int   // peers that could not be connected; Poll calls Down

	watchAt  time.Time // when connections are looked at; zero: not
	quiesced bool
	polling  bool
	polls    uint
	vec      vector
}

// state is what stands between this rank and a peer.
type state uint8

const (
	idle    state = iota
	dialing       // an attempt of ours is under way
	yielded       // the peer, of lower rank, is connecting to us
	pausing       // the peer said Later
	up
	down // until Restart
)

type peer struct {
	addr      address
	asked     bool // for its address
	route     route
	state     state
	wanted    bool      // a Send was answered Full: connect, and call Writable
	began     time.Time // the first try of the connection
	heard     bool      // its machine has answered since
	suspected bool      // env.Suspect was told
	deadline  time.Time // the connection is to be up by then
	again     time.Time // pausing: the next try
	attempt   *attempt
	conn      *conn
	err       error // why it is down; for the upcall
}

func init() { rpi.Register("tcp", func() rpi.Module { return New() }) }

// New returns a module that is not started.
func New() *Module {
	m := &Module{lfd: -1, limits: usual, nics: ifaddr.Addresses}
	m.epfd, m.evfd, m.tfd = -1, -1, -1
	return m
}

// Name returns "tcp".
func (m *Module) Name() string { return "tcp" }

// Start listens on an ephemeral port: of env.Host, an IP address, or of all addresses of this machine if the ranks
// are on several.
func (m *Module) Start(env rpi.Env) ([]byte, error) {
	if len(env.Secret) == 0 {
		return nil, errors.New("tcp: no secret to authenticate peers with")
	}
	if env.Rank < 0 || env.Rank >= env.Size {
		return nil, fmt.Errorf("tcp: rank %d of %d", env.Rank, env.Size)
	}
	params, err := parseParams(env.Params)
	if err != nil {
		return nil, err
	}
	host, err := parseHost(env.Host)
	if err != nil {
		return nil, err
	}
	params.settle(!env.Wide && host.IsLoopback())
	m.env, m.params = env, params
	m.known, m.peers = make([]bool, env.Size), make([]*peer, env.Size)
	if m.at, err = m.places(host); err != nil {
		return nil, err
	}
	if err := m.open(); err != nil {
		m.shut()
		return nil, fmt.Errorf("tcp: %w", err)
	}
	fd, port, err := m.params.listen(m.listenOn())
	if err == nil {
		m.lfd = fd
		err = m.register(fd, listener{m}, 0)
		m.hushed = true
	}
	if err != nil {
		m.shut()
		return nil, err
	}
	m.adopt(m.tfd, timer{m})
	m.hush(false)
	m.stopped.Store(false)
	return address{nativeOrder, port, m.at}.encode(), nil
}

// places returns the addresses to publish.
func (m *Module) places(host netip.Addr) ([]ifaddr.Address, error) {
	if !m.env.Wide {
		return []ifaddr.Address{{IP: host, Bits: host.BitLen()}}, nil
	}
	own, err := m.nics(func(name string, ip netip.Addr) bool { return anyHas(m.params.networks, name, ip) })
	all := here(host, own)
	switch {
	case len(all) > 0:
		return all, nil
	case err != nil:
		return nil, fmt.Errorf("tcp: %w", err)
	}
	return nil, errors.New("tcp: this machine has no address that other machines could reach: its networks are down, or end at this machine as docker0 does; -param tcp.networks=NAME takes such a one")
}

// listenOn returns the address to bind to.
func (m *Module) listenOn() netip.Addr {
	switch six := slices.ContainsFunc(m.at, func(a ifaddr.Address) bool { return a.IP.Is6() }); {
	case !m.env.Wide:
		return m.at[0].IP
	case six:
		return netip.IPv6Unspecified() // which takes IPv4, too
	}
	return netip.IPv4Unspecified()
}

// Peers learns where the other ranks listen.
func (m *Module) Peers(addrs [][]byte) error {
	if len(addrs) != m.env.Size {
		return fmt.Errorf("tcp: %d addresses for %d ranks", len(addrs), m.env.Size)
	}
	for i, p := range addrs {
		if p == nil || i == m.env.Rank {
			continue
		}
		m.known[i] = true
		if len(p) == 0 && m.env.Ask != nil {
			continue
		}
		if err := m.place(i, p); err != nil {
			return err
		}
	}
	return nil
}

// deny says so if tcp.networks cannot be heeded with a peer.
func (m *Module) deny(peer int) {
	if m.env.Denied == nil || !m.env.Wide || len(m.params.networks) == 0 {
		return
	}
	theirs := m.peer(peer).addr.at
	if _, heeded := choose(m.at, theirs, m.params.networks); !heeded {
		ends := []string{list(m.at), list(theirs)}
		slices.Sort(ends) // so that both ranks say the same
		m.env.Denied(peer, fmt.Errorf("tcp.networks=%s: one has %s, the other %s; name a network that both are in", m.env.Params["tcp.networks"], ends[0], ends[1]))
	}
}

// peer is the state of a rank.
func (m *Module) peer(rank int) *peer {
	if m.peers[rank] == nil {
		m.peers[rank] = &peer{}
	}
	return m.peers[rank]
}

// Reaches reports whether the peer has told an address.
func (m *Module) Reaches(peer int) bool {
	return peer >= 0 && peer < len(m.known) && m.known[peer]
}

// EagerLimit is parameter tcp.eager.
func (m *Module) EagerLimit() int { return m.params.eager }

// Send passes a frame to the peer's connection. Without a connection it begins one and answers Full. It makes
// no upcalls.
func (m *Module) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	p := m.peer(peer)
	if p.conn != nil {
		return p.conn.send(h, payload, ref, more)
	}
	if m.known[peer] && p.state != down {
		p.wanted = true
		if p.state == idle && !m.quiesced {
			m.dial(peer)
		}
	}
	return rpi.Full
}

// Flush writes out what Send has accepted.
func (m *Module) Flush() bool {
	m.clean()
	if m.blocked > 0 {
		for i := 0; i < len(m.conns); i++ {
			if m.conns[i].blocked {
				m.conns[i].flush()
			}
		}
	}
	return m.blocked == 0 && len(m.dirty) == 0
}

// clean flushes the connections with bytes held back.
func (m *Module) clean() (moved bool) {
	for len(m.dirty) > 0 {
		c := m.dirty[len(m.dirty)-1]
		m.dirty = m.dirty[:len(m.dirty)-1]
		c.dirty = false
		if c.flush() {
			moved = true
		}
	}
	return moved
}

// Poll makes progress on everything.
func (m *Module) Poll() (moved bool) {
	if m.polling { // from an upcall
		return false
	}
	m.polling = true
	m.polls++
	moved = m.learned()
	if m.answers.any.Load() {
		m.placed()
		moved = true
	}
	if len(m.conns) <= directMax {
		if m.pollAll() {
			moved = true
		}
		if len(m.conns) == 0 || m.attempts > 0 || len(m.guests) > 0 || m.polls%64 == 0 {
			moved = m.look() || moved
		}
	} else if m.hot == nil || m.polls%8 == 0 || !m.hot.receive() {
		moved = m.look() || moved
	} else {
		moved = true
	}
	if len(m.dirty) > 0 {
		moved = m.clean() || moved
	}
	if len(m.broken)+len(m.failed) > 0 {
		m.report()
		moved = true
	}
	m.polling = false
	return moved
}

// pollAll reads every connection. It also writes to those that were blocked.
func (m *Module) pollAll() (moved bool) {
	for i := 0; i < len(m.conns); {
		c := m.conns[i]
		if c.receive() {
			moved = true
		}
		if c.blocked && c.flush() {
			moved = true
		}
		if !c.gone {
			i++
		}
	}
	return moved
}

// report calls Down for failures that happened where no upcall is allowed.
func (m *Module) report() {
	for len(m.broken) > 0 {
		c := m.broken[0]
		m.broken = m.broken[1:]
		cause := c.err
		for !c.gone && c.receive() {
		}
		if !c.gone {
			c.lost(cause)
		}
	}
	for len(m.failed) > 0 {
		peer := m.failed[0]
		m.failed = m.failed[1:]
		m.env.Sink.Down(peer, m.naming(peer, m.peer(peer).err))
	}
}

// give gives up a peer that could not be connected. The next Poll reports it.
func (m *Module) give(peer int, err error) {
	p := m.peer(peer)
	p.state, p.err, p.wanted = down, nofile.Explain(err, nofile.OfRank(m.env.Size), ""), false
	m.failed = append(m.failed, peer)
}

func (m *Module) naming(peer int, err error) error {
	return fmt.Errorf("tcp: rank %d: %w", peer, err)
}

// Arm allows waiting unless Wait has learned of something, an address has come, or a Down is owed. What arrives from now on ends
// Wait. Nothing is held back meanwhile.
func (m *Module) Arm() bool {
	if len(m.dirty) > 0 {
		m.clean()
		return false // upcalls may have brought new work
	}
	return m.nwaited.Load() == 0 && !m.answers.any.Load() && len(m.broken)+len(m.failed) == 0
}

// Quiesce tears down attempts that have not sent their proof, and callers. If an attempt has sent its proof,
// the peer decides, at its own Quiesce at the latest.
func (m *Module) Quiesce() {
	m.quiesced = true
	m.hush(true)
	for len(m.guests) > 0 {
		m.guests[len(m.guests)-1].refuse(codeLater)
	}
	for _, p := range m.peers {
		if p == nil {
			continue
		}
		switch p.state {
		case dialing:
			if p.attempt.stage < proving {
				p.attempt.drop(idle)
			}
		case yielded, pausing:
			p.state = idle
		}
		p.deadline, p.began, p.heard = time.Time{}, time.Time{}, false
	}
}

// Quiet reports whether every accepted byte has left and no handshake is in
// progress.
func (m *Module) Quiet() bool {
	return m.attempts == 0 && len(m.guests) == 0 && m.Flush() && len(m.broken)+len(m.failed) == 0
}

// Continue sets up again what Quiesce has torn down.
func (m *Module) Continue() {
	m.quiesced = false
	m.hush(false)
	for i, p := range m.peers {
		if p == nil {
			continue
		}
		switch {
		case p.state == dialing:
			p.began, p.heard = time.Now(), true // it has said Go
			p.deadline = p.began.Add(m.params.connectTimeout)
			m.alarm(p.deadline)
		case p.state == pausing || p.state == yielded:
			p.state = idle
			fallthrough
		case p.state == idle && p.wanted:
			m.dial(i)
		}
	}
}

// Restart forgets everything and starts again. It closes the numbers of the old descriptors. After
// a native image these are closed already or stand for the old ones. Where the process has lived on
// they are connections to peers, which do not look at them before they restart as well.
func (m *Module) Restart(env rpi.Env) ([]byte, error) {
	m.release()
	return m.Start(env)
}

// Close ends all connections.
func (m *Module) Close() error {
	m.release()
	return nil
}

func (m *Module) release() {
	m.shut()
	m.lfd, m.hushed, m.quiesced = -1, false, false
	m.answers.take()
	m.known, m.peers, m.conns, m.guests, m.attempts = nil, nil, nil, nil, 0
	m.hot, m.dirty, m.blocked, m.broken, m.failed = nil, nil, 0, nil, nil
	m.watchAt = time.Time{}
}
