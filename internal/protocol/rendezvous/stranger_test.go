package rendezvous

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// eventually waits for a state of the home's counts.
func eventually(t *testing.T, h *Listener, what string, ok func(Stats) bool) {
	t.Helper()
	testenv.Until(t, func() string {
		if s := h.Stats(); !ok(s) {
			return fmt.Sprintf("not yet %s: %+v", what, s)
		}
		return ""
	})
}

// knock connects to a home, as anybody can.
func knock(t *testing.T, h *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// strange is what a stranger's TLS asks for.
func strange(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}

// The frames of a good call, byte for byte, with a caller made by hand. The home says nothing
// before it has heard the proof.
func TestTranscript(t *testing.T) {
	h := open(t, Config{Secret: bytes.Repeat([]byte{1}, 32), Job: "j"})
	ticket := h.Ticket(258, 3, 1<<33)
	c := tls.Client(knock(t, h), strange(protocol))
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if v := c.ConnectionState().Version; v != tls.VersionTLS13 {
		t.Fatalf("version %x", v)
	}
	x, err := exported(c)
	if err != nil {
		t.Fatal(err)
	}
	who := "home\x02\x01\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"
	proof := prove(ticket.Token, asCaller, x, ticket.identity())
	if _, err := c.Write(append([]byte(who), proof[:]...)); err != nil {
		t.Fatal(err)
	}
	var p [answerSize]byte
	if _, err := io.ReadFull(c, p[:]); err != nil {
		t.Fatal(err)
	}
	if want := prove(ticket.Token, asHome, x, ticket.identity()); p[0] != 1 || !bytes.Equal(p[1:], want[:]) {
		t.Errorf("the answer is %x", p)
	}
	caller, s, err := h.Accept()
	if err != nil || caller.Node != 258 || caller.Agent != 3 || caller.Life != 1<<33 {
		t.Fatalf("%+v, %v", caller, err)
	}
	defer s.Close()
	if _, err := s.Write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, p[:5]); err != nil || string(p[:5]) != "after" {
		t.Errorf("%q, %v", p[:5], err)
	}
}

// proxy carries one connection to the home, as an address between would. What passes from the
// caller goes through change.
type proxy struct {
	net.Listener
	h      *Listener
	change func(home io.Writer, from io.Reader)
}

func between(t *testing.T, h *Listener, change func(home io.Writer, from io.Reader)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l, h, change}
	var all sync.WaitGroup
	all.Add(1)
	go func() {
		defer all.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Add(1)
			go func() {
				defer all.Done()
				p.carry(c)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); all.Wait() })
	return p
}

func (p *proxy) carry(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", p.h.address())
	if err != nil {
		return
	}
	defer up.Close()
	var down sync.WaitGroup
	down.Add(1)
	go func() {
		defer down.Done()
		io.Copy(c, up)
		c.(*net.TCPConn).CloseWrite()
	}()
	p.change(up, c)
	up.(*net.TCPConn).CloseWrite()
	down.Wait()
}

// record returns all bytes that a caller with this ticket sends: the handshake, the proof, and a word.
func record(t *testing.T, h *Listener, ticket Ticket) []byte {
	t.Helper()
	var sent bytes.Buffer
	p := between(t, h, func(home io.Writer, from io.Reader) { io.Copy(home, io.TeeReader(from, &sent)) })
	ticket.Addresses = []string{p.Addr().String()}
	_, here, there := meet(t, h, ticket)
	if _, err := there.Write([]byte("word")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(here, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(sent.Bytes())
}

// A recording of a whole session, played again, and every part of it opens nothing.
func TestReplay(t *testing.T) {
	h := open(t, Config{})
	tape := record(t, h, h.invite(1, 2, 3))
	step := 1 + len(tape)/40
	for n := len(tape); n >= 0; n -= step {
		before := h.Stats()
		c := knock(t, h)
		c.Write(tape[:n]) // it may be ended while we write
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		eventually(t, h, "ended", func(s Stats) bool { return s.Ended == before.Ended+1 && s.Unproved == 0 })
	}
	if s := h.Stats(); s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
}

// A call whose bytes end before the proof is whole is none.
func TestTruncated(t *testing.T) {
	h := open(t, Config{})
	ticket := h.invite(1, 2, 3)
	whole := len(record(t, h, ticket)) - (4 + 22) // without the word's record
	for _, n := range []int{0, 1, 100, whole / 2, whole - 60, whole - 1} {
		before := h.Stats()
		ctx, cancel := context.WithCancel(context.Background())
		p := between(t, h, func(home io.Writer, from io.Reader) { io.CopyN(home, from, int64(n)) })
		ticket.Addresses = []string{p.Addr().String()}
		over := make(chan error, 1)
		go func() {
			_, err := Call(ctx, ticket)
			over <- err
		}()
		eventually(t, h, "ended", func(s Stats) bool { return s.Ended > before.Ended })
		cancel()
		if err := failed(t, <-over); !errors.Is(err, ErrDropped) && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	if s := h.Stats(); s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
}

// A caller whose bytes come one by one is one all the same.
func TestByteByByte(t *testing.T) {
	h := open(t, Config{})
	p := between(t, h, func(home io.Writer, from io.Reader) {
		var b [1]byte
		for {
			if _, err := from.Read(b[:]); err != nil {
				return
			}
			home.Write(b[:])
		}
	})
	ticket := h.invite(1, 2, 3)
	ticket.Addresses = []string{p.Addr().String()}
	meet(t, h, ticket)
}

// Bytes do not prolong the time: who sends one now and then is ended.
func TestSlow(t *testing.T) {
	h := open(t, Config{Limits: Limits{Time: 100 * time.Millisecond}})
	idle, drip := knock(t, h), knock(t, h)
	drip.Write([]byte{22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb}) // a long ClientHello begins
	go func() {
		for range time.Tick(time.Millisecond) { // 16 KB would take 16 s
			if _, err := drip.Write([]byte{3}); err != nil {
				return
			}
		}
	}()
	for _, c := range []net.Conn{idle, drip} {
		io.Copy(io.Discard, c) // returns when the home has ended it
	}
	eventually(t, h, "ended", func(s Stats) bool { return s.Ended == 2 && s.Unproved == 0 })
}

// Whoever sends much without a proof is ended for that, however much time there is.
func TestTooMuch(t *testing.T) {
	h := open(t, Config{Limits: Limits{Time: time.Hour}})
	c := knock(t, h)
	flood := make([]byte, 1<<20)
	copy(flood, []byte{22, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xfb})
	for at := 5 + 0x3fff; at+5 < len(flood); at += 5 + 0x3fff { // records of one endless ClientHello
		copy(flood[at:], []byte{22, 3, 3, 0x3f, 0xff})
	}
	c.Write(flood)
	io.Copy(io.Discard, c)
	eventually(t, h, "ended", func(s Stats) bool { return s.Ended == 1 && s.Unproved == 0 })
	raw := newConn(readerConn{})
	if n, err := io.Copy(io.Discard, onlyReader{raw}); n != MaxUnproved || err != errTooMuch {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type onlyReader struct{ io.Reader }

// readerConn has no end.
type readerConn struct{ net.Conn }

func (readerConn) Read(p []byte) (int, error) { return len(p), nil }

// What is not TLS 1.3 with our protocol is ended, and hears no answer of ours.
func TestGarbage(t *testing.T) {
	h := open(t, Config{})
	noise := make([]byte, 4096)
	rand.Read(noise)
	for name, p := range map[string][]byte{
		"HTTP":   []byte("GET / HTTP/1.1\r\nHost: head\r\n\r\n"),
		"noise":  noise,
		"ssh":    []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"claim":  make([]byte, claimSize),
		"zeros":  make([]byte, 100),
		"record": {22, 3, 1, 0, 5, 1, 2, 3, 4, 5},
	} {
		before := h.Stats()
		c := knock(t, h)
		c.Write(p)
		c.(*net.TCPConn).CloseWrite()
		if got, _ := io.ReadAll(c); len(got) > 7 { // an alert of TLS, at most
			t.Errorf("%s: %d bytes came back", name, len(got))
		}
		eventually(t, h, "ended", func(s Stats) bool { return s.Ended == before.Ended+1 })
	}
	older := strange(protocol)
	older.MaxVersion = tls.VersionTLS12
	for name, cfg := range map[string]*tls.Config{"TLS 1.2": older, "no protocol": strange(), "other protocol": strange("h2")} {
		before := h.Stats()
		c := tls.Client(knock(t, h), cfg)
		if err := c.Handshake(); err == nil {
			if n, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: %d bytes came", name, n)
			}
		}
		eventually(t, h, "ended", func(s Stats) bool { return s.Ended == before.Ended+1 })
	}
	c := tls.Client(knock(t, h), strange(protocol))
	c.Write(bytes.Repeat([]byte("x"), claimSize))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("no claim: %d bytes came", n)
	}
	if s := h.Stats(); s.Accepted != 0 {
		t.Errorf("%+v", s)
	}
}

// A home of another version says so to the user.
func TestOtherVersion(t *testing.T) {
	h := open(t, Config{})
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: h.tls.Certificates, NextProtos: []string{"gorun-home/2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	ticket := h.invite(0, 0, 0)
	ticket.Addresses = []string{l.Addr().String()}
	_, err = Call(context.Background(), ticket)
	if err := failed(t, err); err != ErrVersion {
		t.Errorf("got %v", err)
	}
}

// Thousands of idle connections: no more of them than there are places cost anything, and a caller
// comes in past them.
func TestIdleConnections(t *testing.T) {
	const places, idle = 32, 3000
	h := open(t, Config{Limits: Limits{Unproved: places, Grace: time.Millisecond}})
	before := runtime.NumGoroutine()
	for n := range idle {
		c := knock(t, h)
		if n%3 == 0 {
			c.Write([]byte{22, 3, 1, 2, 0}) // one that has begun
		}
		if s := h.Stats(); s.Unproved > places {
			t.Fatalf("%d connections: %+v", n, s)
		}
	}
	meet(t, h, h.invite(0, 0, 0))
	// All came before the caller. The places are full, and nothing else has grown.
	s := h.Stats()
	if s.Seen < idle || s.Dropped < idle-places || s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
	if now := runtime.NumGoroutine(); now > before+places+10 {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

// While places are taken by those who have not had their time, a caller waits. It comes in when one leaves.
func TestGrace(t *testing.T) {
	h := open(t, Config{Limits: Limits{Unproved: 1, Time: time.Hour, Grace: time.Hour}})
	c := knock(t, h)
	eventually(t, h, "taken", func(s Stats) bool { return s.Unproved == 1 })
	called := make(chan oob.Stream, 1)
	go func() {
		s, err := Call(context.Background(), h.invite(0, 0, 0))
		if err != nil {
			t.Error(err)
		}
		called <- s
	}()
	knock(t, h).Close()
	c.Close()
	if s := <-called; s != nil {
		s.Close()
	}
	eventually(t, h, "accepted", func(s Stats) bool { return s.Dropped == 0 && s.Accepted == 1 })
}

// A proved caller beyond those that may wait is dropped, and calls again.
func TestWaiting(t *testing.T) {
	h := open(t, Config{Limits: Limits{Waiting: 1}})
	called := make(chan oob.Stream, 2)
	for i := range 2 {
		go func() {
			s, err := Call(context.Background(), h.invite(0, i, 0))
			if err != nil {
				t.Error(err)
			}
			called <- s
		}()
	}
	eventually(t, h, "dropped", func(s Stats) bool { return s.Dropped > 0 })
	for range 2 {
		a := <-accept(h)
		if a.err != nil {
			t.Fatal(a.err)
		}
		a.s.Close()
	}
	for range 2 {
		if s := <-called; s != nil {
			s.Close()
		}
	}
}

// Many callers at once, two of each identity and more than there are places: all come in.
func TestManyCallers(t *testing.T) {
	const callers = 60
	h := open(t, Config{Limits: Limits{Unproved: 8}})
	var all sync.WaitGroup
	defer all.Wait()
	for i := range callers {
		all.Add(1)
		go func() {
			defer all.Done()
			s, err := Call(context.Background(), h.invite(i/2, Keeper, 0))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			io.Copy(io.Discard, s) // until the home ends it
		}()
	}
	seen := map[int]int{}
	for range callers {
		c, s, err := h.Accept()
		if err != nil {
			t.Fatal(err)
		}
		seen[c.Node]++
		s.Close()
	}
	for i := range callers / 2 {
		if seen[i] != 2 {
			t.Errorf("node %d has called %d times", i, seen[i])
		}
	}
}

// middle is a man in the middle: he ends the caller's TLS with a certificate of his own and has another
// connection to the home. What he hears on one he says on the other.
func middle(t *testing.T, h *Listener) (own *Listener, answered <-chan []byte) {
	t.Helper()
	own = open(t, Config{}) // for its key
	l, err := tls.Listen("tcp", "127.0.0.1:0", own.tls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	own.addresses = []string{l.Addr().String()}
	heard := make(chan []byte, 1)
	go func() {
		defer close(heard)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		up, err := tls.Dial("tcp", h.address(), strange(protocol))
		if err != nil {
			return
		}
		defer up.Close()
		p := make([]byte, claimSize)
		if _, err := io.ReadFull(c, p); err != nil {
			return // the caller has not trusted him
		}
		up.Write(p)
		answer := make([]byte, answerSize)
		if _, err := io.ReadFull(up, answer); err != nil {
			return
		}
		heard <- bytes.Clone(answer)
		answer[0] = accepted
		c.Write(answer)
	}()
	return own, heard
}

// A man in the middle hears no proof; and one who could have changed the ticket's key hears one that
// is of no use.
func TestRelay(t *testing.T) {
	for name, trusted := range map[string]bool{"unknown key": false, "key believed": true} {
		h := open(t, Config{})
		man, heard := middle(t, h)
		ticket := h.Ticket(1, 2, 3)
		ticket.Addresses = man.Addresses()
		if trusted {
			ticket.Fingerprint = man.Ticket(0, 0, 0).Fingerprint
		}
		_, err := Call(context.Background(), ticket)
		if err := failed(t, err); err != ErrStranger {
			t.Errorf("%s: %v", name, err)
		}
		answer, any := <-heard
		if any != trusted || any && answer[0] != refused {
			t.Errorf("%s: the home's answer is %x", name, answer)
		}
		if s := h.Stats(); s.Accepted != 0 || (s.Refused == 1) != trusted {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
