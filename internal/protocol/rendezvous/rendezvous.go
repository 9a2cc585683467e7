package rendezvous

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Config says how a home is made.
type Config struct {
	Job       string
	Addresses []string // where else the home can be reached: host, or host:port; they come first in tickets
	Port      int      // 0: any that is free
	Secret    []byte   // nil: a random one; else at least MinSecret bytes
	Limits    Limits
}

// Limits bound what strangers can cost. Zero values stand for the defaults.
type Limits struct {
	Time     time.Duration // from the first instant of a connection to its proof; default 10 s
	Unproved int           // connections without proof; default 512
	Grace    time.Duration // time that each of them certainly has when others wait for its place; default 250 ms
	Waiting  int           // proved callers that Accept has not returned; default 1,024
}

func (l *Limits) defaults() {
	if l.Time <= 0 {
		l.Time = 10 * time.Second
	}
	if l.Unproved <= 0 {
		l.Unproved = 512
	}
	if l.Grace <= 0 {
		l.Grace = 250 * time.Millisecond
	}
	if l.Waiting <= 0 {
		l.Waiting = 1024
	}
}

// Stats counts connections since the start.
type Stats struct {
	Seen     int // all
	Unproved int // now
	Accepted int // those that proved who they are
	Refused  int // those whose proof was false
	Dropped  int // those dropped in favour of newer ones
	Ended    int // all others: gone, too slow, or no callers
}

// Caller is a process that has proved its identity.
type Caller struct {
	Node, Agent, Life int
	Remote            net.Addr // where it calls from
	Local             net.Addr // where it has reached us
}

// Listener is a listener for callers with a ticket.
type Listener struct {
	job       string
	keys      keys
	addresses []string
	listener  net.Listener
	tls       *tls.Config
	limits    Limits

	places  chan struct{} // taken by connections without proof
	waiting chan struct{} // taken by callers that wait for Accept
	proved  chan arrival  // as many, so that sending never blocks
	done    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	unproved list.List // of *conn, the oldest first
	stats    Stats
}

// arrival is what Accept returns.
type arrival struct {
	caller Caller
	stream *stream
}

// Listen opens a home, on all addresses of this machine.
func Listen(cfg Config) (*Listener, error) {
	secret := cfg.Secret
	if secret == nil {
		secret = make([]byte, 32)
		rand.Read(secret)
	} else if len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrSecret, len(secret), MinSecret)
	}
	k, err := deriveKeys(secret, cfg.Job)
	if err != nil {
		return nil, err
	}
	cert, err := certificate(k)
	if err != nil {
		return nil, err
	}
	// The zero KeepAlive of net would let a silent node's connection end before its lease does.
	lc := net.ListenConfig{KeepAlive: -1}
	l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort("", strconv.Itoa(cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	h := &Listener{job: cfg.Job, keys: k, listener: l, limits: cfg.Limits, done: make(chan struct{})}
	h.limits.defaults()
	h.places = make(chan struct{}, h.limits.Unproved)
	h.waiting = make(chan struct{}, h.limits.Waiting)
	h.proved = make(chan arrival, h.limits.Waiting)
	h.tls = &tls.Config{
		Certificates:           []tls.Certificate{cert},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,

		DynamicRecordSizingDisabled: true, // no small records at the start of bulk data
	}
	if h.addresses, err = reachable(cfg.Addresses, l.Addr().(*net.TCPAddr).Port); err != nil {
		l.Close()
		return nil, err
	}
	h.running.Add(1)
	go h.listen()
	return h, nil
}

// certificate wraps the job's key. Callers look at the key alone.
func certificate(k keys) (tls.Certificate, error) {
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.private.Public(), k.private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("home: certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k.private}, nil
}

// reachable lists where the home can be called: where the user says, and at this machine's addresses.
func reachable(extra []string, port int) (list []string, err error) {
	for _, a := range extra {
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(a, strconv.Itoa(port))
		}
		list = append(list, a)
	}
	prefixes, err := Addresses()
	if err != nil {
		return nil, err
	}
	for _, p := range prefixes {
		list = append(list, net.JoinHostPort(p.Addr().String(), strconv.Itoa(port)))
	}
	return list, nil
}

// Addresses are where the home can be called, by preference.
func (h *Listener) Addresses() []string { return h.addresses }

// Ticket invites a caller: agent i of a node in a life, or the node's keeper. It panics if a number
// is negative.
func (h *Listener) Ticket(node, agent, life int) Ticket {
	id := identity{node, agent, life}
	err := id.check()
	if err == nil {
		var t Ticket
		if t, err = h.keys.ticket(h.job, append([]string(nil), h.addresses...), id); err == nil {
			return t
		}
	}
	panic(fmt.Sprintf("home: %v", err))
}

// Stats returns the counts of connections.
func (h *Listener) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Unproved = len(h.places)
	return s
}

// Accept waits for the next caller that has proved its identity. The stream belongs to the caller
// of Accept. After Close the error is net.ErrClosed.
func (h *Listener) Accept() (Caller, oob.Stream, error) {
	select {
	case <-h.done: // return no more callers, even if some wait
		return Caller{}, nil, net.ErrClosed
	default:
	}
	select {
	case a := <-h.proved:
		<-h.waiting
		return a.caller, a.stream, nil
	case <-h.done:
		return Caller{}, nil, net.ErrClosed
	}
}

// Close ends the home and every connection that Accept has not returned. It does not block.
func (h *Listener) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return net.ErrClosed
	}
	h.closed = true
	close(h.done)
	for e := h.unproved.Front(); e != nil; e = e.Next() {
		e.Value.(*conn).drop()
	}
	h.mu.Unlock()
	err := h.listener.Close()
	h.running.Wait()
	for {
		select {
		case a := <-h.proved:
			a.stream.Close()
		default:
			return err
		}
	}
}

// listen takes connections, each into a place.
func (h *Listener) listen() {
	defer h.running.Done()
	const first, last = 5 * time.Millisecond, time.Second
	pause := first
	for {
		c, err := h.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors or memory: a stranger may hold them
			h.dropOldest(0)
			select {
			case <-time.After(pause):
			case <-h.done:
				return
			}
			pause = min(2*pause, last)
			continue
		}
		pause = first
		raw := newConn(c)
		if !h.place() {
			raw.drop()
			return
		}
		e := h.enter(raw)
		if e == nil {
			raw.drop()
			return
		}
		h.running.Add(1)
		go h.hear(raw, e)
	}
}

// place takes a place, if necessary that of the oldest connection. It reports false if the home is
// closed.
func (h *Listener) place() bool {
	select {
	case h.places <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(0)
	defer late.Stop()
	for {
		select {
		case h.places <- struct{}{}:
			return true
		case <-late.C:
			if wait := h.dropOldest(h.limits.Grace); wait > 0 {
				late.Reset(wait)
			} // otherwise its goroutine leaves
		case <-h.done:
			return false
		}
	}
}

// enter notes a connection without proof; nil if the home is closed.
func (h *Listener) enter(c *conn) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.stats.Seen++
	return h.unproved.PushBack(c)
}

// dropOldest ends the connection that has been without proof for the longest, if it has had its time. Otherwise
// it returns how long to wait.
func (h *Listener) dropOldest(grace time.Duration) (wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.unproved.Front()
	if e == nil {
		return grace // all have proved their identity, and are about to leave
	}
	raw := e.Value.(*conn)
	if wait = grace - time.Since(raw.since); wait > 0 {
		return wait
	}
	h.unproved.Remove(e)
	raw.dropped = true
	raw.drop()
	h.stats.Dropped++
	return 0
}

// leave removes a connection from those without proof. It reports whether it is still there.
func (h *Listener) leave(e *list.Element, c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unproved.Remove(e) // nothing happens if it is not in the list any more
	return !c.dropped && !h.closed
}

// count adds to a field of the stats.
func (h *Listener) count(n *int) {
	h.mu.Lock()
	*n++
	h.mu.Unlock()
}

// hear lets a connection prove its identity. It owns the connection and its place.
func (h *Listener) hear(raw *conn, e *list.Element) {
	defer h.running.Done()
	defer func() { <-h.places }()
	raw.SetDeadline(raw.since.Add(h.limits.Time))
	t := tls.Server(raw, h.tls)
	c, x, err := h.claimed(t)
	if there := h.leave(e, raw); err != nil || !there {
		if there {
			h.count(&h.stats.Ended)
		}
		raw.drop()
		return
	}
	token := h.keys.token(c.identity)
	if want := prove(token, asCaller, x, c.identity); !hmac.Equal(want[:], c.proof[:]) {
		h.count(&h.stats.Refused)
		t.Write(append([]byte{refused}, make([]byte, answerSize-1)...))
		(&stream{t, raw}).Close()
		return
	}
	h.admit(t, raw, c.identity, prove(token, asHome, x, c.identity))
}

// claimed reads the identity that the other side claims.
func (h *Listener) claimed(t *tls.Conn) (c claim, x []byte, err error) {
	if err = t.Handshake(); err != nil {
		return
	}
	if x, err = exported(t); err != nil {
		return
	}
	var p [claimSize]byte
	if _, err = io.ReadFull(t, p[:]); err != nil {
		return
	}
	c, err = parseClaim(p[:])
	return
}

// admit answers a caller whose proof is right, and leaves it to Accept.
func (h *Listener) admit(t *tls.Conn, raw *conn, id identity, proof [32]byte) {
	select {
	case h.waiting <- struct{}{}:
	default:
		h.count(&h.stats.Dropped)
		raw.drop()
		return
	}
	_, err := t.Write(append([]byte{accepted}, proof[:]...))
	var s *stream
	if err == nil {
		s, err = newStream(t, raw)
	}
	if err != nil {
		<-h.waiting
		h.count(&h.stats.Ended)
		raw.drop()
		return
	}
	h.count(&h.stats.Accepted)
	h.proved <- arrival{Caller{id.node, id.agent, id.life, raw.RemoteAddr(), raw.LocalAddr()}, s}
}
