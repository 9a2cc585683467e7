package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pause is how long this rank waits before it tries a peer again that said Later.
const pause = 5 * time.Millisecond

// roundPause is the same when all addresses of the peer were tried and some did not answer.
const roundPause = 500 * time.Millisecond

// stage is how far an attempt or a guest has come.
type stage uint8

const (
	connecting stage = iota // attempt: the kernel has not reported the connection
	hearing                 // attempt: hello sent, a verdict is due
	checking                // attempt: first verdict Go, the answer is due
	proving                 // attempt: proof sent, the final verdict is due; no way back
	greeting                // guest: its hello is due
	proofDue                // guest: answered, its proof is due
)

// attempt is a connection that this rank has begun and that is not up yet.
type attempt struct {
	talk
	m     *Module
	peer  int
	stage stage
	limit time.Time // by then another address is tried; zero: there is none
	hello [helloSize]byte
}

// dial begins a connection. It makes no upcall: the next Poll reports a failure.
func (m *Module) dial(peer int) {
	p := m.peer(peer)
	if p.addr.port == 0 {
		m.seek(peer)
		return
	}
	if p.route.tries == nil {
		ips, _ := choose(m.at, p.addr.at, m.params.networks)
		if len(ips) == 0 {
			m.give(peer, fmt.Errorf("%w: it has %s, this rank %s", ErrNoWay, list(p.addr.at), list(m.at)))
			return
		}
		p.route = newRoute(ips, p.addr.port)
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if p.deadline.IsZero() {
		p.deadline = time.Now().Add(m.params.connectTimeout)
	}
	m.alarm(p.deadline)
	for {
		err := m.call(peer)
		if err == nil {
			m.expect()
			return
		}
		if !p.route.failed(err) {
			m.give(peer, p.route.err())
			return
		}
	}
}

// another goes on with the peer's next address after an attempt has failed, or begins another round.
func (m *Module) another(peer int, err error) {
	p := m.peer(peer)
	if m.env.Wide && (errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ETIMEDOUT)) {
		err = fmt.Errorf("%w: %w", errSlow, err) // a cut looks like this, and may be mended
	}
	switch {
	case !p.route.failed(err):
		m.give(peer, p.route.err())
	case p.route.next == 0:
		p.state, p.again = pausing, time.Now().Add(roundPause)
		m.alarm(p.again)
	default:
		m.dial(peer)
	}
}

// call begins an attempt with the address that is next.
func (m *Module) call(peer int) error {
	p := m.peer(peer)
	family, sa := sockaddr(p.route.at())
	fd, err := m.params.socket(family)
	if err == nil {
		err = unix.Connect(fd, sa)
		if err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
			unix.Close(fd)
		} else {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	a := &attempt{m: m, peer: peer}
	a.fd = fd
	h := hello{
		version: version, order: nativeOrder, from: m.env.Rank, to: peer,
		size: m.env.Size, incarnation: m.env.Incarnation,
	}
	rand.Read(h.nonce[:])
	h.encode(a.hello[:])
	if err := m.register(fd, a, unix.EPOLLOUT); err != nil {
		return err
	}
	p.state, p.attempt = dialing, a
	m.attempts++
	a.expect(m.limits.reach)
	return nil
}

// expect gives the attempt so long to come further, if the peer has other addresses.
func (a *attempt) expect(d time.Duration) {
	if len(a.m.peer(a.peer).route.tries) > 1 {
		a.limit = time.Now().Add(d)
		a.m.alarm(a.limit)
	}
}

// drop closes the attempt. s is the peer's new state.
func (a *attempt) drop(s state) {
	a.m.unregister(a.fd)
	a.forget(s)
}

func (a *attempt) forget(s state) {
	p := a.m.peer(a.peer)
	p.attempt, p.state = nil, s
	a.m.attempts--
}

func (a *attempt) ready(uint32) bool {
	c, err := a.step()
	if err == nil && c == 0 {
		return true
	}
	m, final := a.m, a.stage == proving // the peer has proved itself: no other address serves better
	switch {
	case err != nil:
		a.drop(idle)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w during the handshake", ErrClosed)
		}
		if final {
			m.give(a.peer, fmt.Errorf("connect to %v: %w", m.peer(a.peer).route.at(), err))
		} else {
			m.another(a.peer, err)
		}
	case c == codeGo:
		a.forget(up)
		m.established(a.peer, a.fd)
	case c == codeYield && a.peer < m.env.Rank: // only the lower rank may have an attempt of its own to prefer
		a.drop(yielded)
	case c == codeLater:
		a.drop(pausing)
		p := m.peer(a.peer)
		p.again = time.Now().Add(pause)
		m.alarm(p.again)
	default:
		a.drop(idle)
		if err = fmt.Errorf("%w by %v: %v", ErrRefused, m.peer(a.peer).route.at(), c); final {
			m.give(a.peer, err)
		} else {
			m.another(a.peer, fmt.Errorf("%w: %v", ErrRefused, c))
		}
	}
	return true
}

// step goes on as far as it can. A code other than 0 ends the attempt. With Go the connection is up; with the
// others it is not.
func (a *attempt) step() (code, error) {
	if a.stage == connecting {
		if err := connected(a.fd); err != nil {
			return 0, err
		}
		a.out = a.hello[:]
		a.stage = hearing
		a.m.peer(a.peer).heard = true
		a.expect(a.m.limits.greet)
		if err := a.m.interest(a.fd, unix.EPOLLIN); err != nil {
			return 0, err
		}
	}
	for {
		if sent, err := a.flush(); err != nil {
			// The peer may have said why before it closed.
			if c, readErr := a.verdict(); readErr == nil && c > codeGo && a.stage != checking {
				return c, nil
			}
			return 0, err
		} else if !sent {
			return 0, a.m.interest(a.fd, unix.EPOLLIN|unix.EPOLLOUT)
		}
		switch a.stage {
		case hearing, proving:
			c, err := a.verdict()
			if err != nil || c == 0 {
				return 0, err
			}
			if a.stage == proving || c != codeGo {
				return c, nil
			}
			a.stage = checking
		case checking:
			p, err := a.take(answerSize)
			if err != nil || p == nil {
				return 0, err
			}
			nonce, proof := p[:nonceSize], p[nonceSize:]
			if !hmac.Equal(proof, prove(a.m.env.Secret, labelAcceptor, a.hello[:], nonce)) {
				return 0, fmt.Errorf("%w: it does not know the secret of the job", ErrRefused)
			}
			a.out = prove(a.m.env.Secret, labelInitiator, a.hello[:], nonce)
			a.stage = proving
		}
	}
}

// verdict reads a verdict; 0 if it has not arrived.
func (a *attempt) verdict() (code, error) {
	p, err := a.take(verdictSize)
	if err != nil || p == nil {
		return 0, err
	}
	return decodeVerdict(p)
}

// connected returns the outcome of a non-blocking connect.
func connected(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = syscall.Errno(n)
	}
	return err
}
