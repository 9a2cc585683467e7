package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"time"

	"golang.org/x/sys/unix"
)

// listener is the endpoint of the listening socket.
type listener struct{ m *Module }

// acceptMax bounds the callers taken in one go.
const acceptMax = 64

func (l listener) ready(uint32) bool {
	m := l.m
	for i := range acceptMax {
		fd, _, err := unix.Accept4(m.lfd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			m.welcome(fd)
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			// Nothing can be accepted for now; the listener would stay ready
			// and keep Wait from sleeping.
			m.hush(true)
			m.alarm(time.Now().Add(pause))
			return i > 0
		default:
			return i > 0
		}
	}
	return true
}

// hush removes the listener from the awaited descriptors, or adds it again.
func (m *Module) hush(quiet bool) {
	events := uint32(unix.EPOLLIN)
	if quiet {
		events = 0
	}
	if m.hushed != quiet && m.interest(m.lfd, events) == nil {
		m.hushed = quiet
	}
}

// guest is a connection begun by another process that has not proved its
// identity.
type guest struct {
	talk
	m        *Module
	stage    stage
	from     int
	deadline time.Time
	expected []byte // the proof he owes
}

func (m *Module) welcome(fd int) {
	if noDelay(fd) != nil { // already reset
		unix.Close(fd)
		return
	}
	if len(m.guests) >= m.params.strangers {
		m.evict()
	}
	g := &guest{m: m, stage: greeting, deadline: time.Now().Add(m.params.strangerTimeout)}
	g.fd = fd
	if m.register(fd, g, unix.EPOLLIN) != nil {
		return
	}
	m.guests = append(m.guests, g)
	m.alarm(g.deadline)
	g.ready(0) // a rank has said hello by now
}

// evict makes room: the oldest guest without a proof is dropped first.
func (m *Module) evict() {
	victim := m.guests[0]
	for _, g := range m.guests {
		if g.stage == greeting {
			victim = g
			break
		}
	}
	victim.refuse(codeLater)
}

func (g *guest) ready(uint32) bool {
	c, err := g.step()
	switch {
	case err != nil:
		g.drop()
	case c == codeGo:
		g.forget()
		p := g.m.peer(g.from)
		if p.attempt != nil {
			p.attempt.drop(idle)
		}
		g.m.established(g.from, g.fd, encodeVerdict(codeGo)...)
	case c != 0:
		g.refuse(c)
	}
	return true
}

// step goes on as far as it can; 0 means that more has to arrive, Go that the
// caller is a rank whose connection is to be used.
func (g *guest) step() (code, error) {
	m := g.m
	for {
		if sent, err := g.flush(); err != nil {
			return 0, err
		} else if !sent {
			return 0, m.interest(g.fd, unix.EPOLLIN|unix.EPOLLOUT)
		}
		switch g.stage {
		case greeting:
			p, err := g.take(helloSize)
			if err != nil || p == nil {
				return 0, err
			}
			var h hello
			if !h.decode(p) {
				return 0, ErrRefused // no rank: not worth an answer
			}
			if c := m.examine(&h); c != codeGo {
				return c, nil
			}
			g.from = h.from
			nonce := make([]byte, nonceSize)
			rand.Read(nonce)
			g.expected = prove(m.env.Secret, labelInitiator, p, nonce)
			g.out = append(append(encodeVerdict(codeGo), nonce...), prove(m.env.Secret, labelAcceptor, p, nonce)...)
			g.stage = proofDue
		case proofDue:
			p, err := g.take(proofSize)
			if err != nil || p == nil {
				return 0, err
			}
			if !hmac.Equal(p, g.expected) {
				return codeProof, nil
			}
			return m.decide(g.from), nil
		}
	}
}

// refuse says why, as far as the socket takes it, and closes.
func (g *guest) refuse(c code) {
	send(g.fd, encodeVerdict(c))
	g.drop()
}

func (g *guest) drop() {
	g.m.unregister(g.fd)
	g.forget()
}

func (g *guest) forget() {
	for i, other := range g.m.guests {
		if other == g {
			g.m.guests = append(g.m.guests[:i], g.m.guests[i+1:]...)
			return
		}
	}
}
