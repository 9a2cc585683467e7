package rendezvous

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// open opens a home that is called by loopback.
func open(t testing.TB, cfg Config) *Listener {
	t.Helper()
	if cfg.Job == "" {
		cfg.Job = "heat-1"
	}
	h, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// address is the home's on loopback.
func (h *Listener) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(h.listener.Addr().(*net.TCPAddr).Port))
}

// invite is a ticket that leads over loopback.
func (h *Listener) invite(node, agent, life int) Ticket {
	t := h.Ticket(node, agent, life)
	t.Addresses = []string{h.address()}
	return t
}

// acceptedCall is what came of one Accept.
type acceptedCall struct {
	Caller
	s   oob.Stream
	err error
}

func accept(h *Listener) <-chan acceptedCall {
	c := make(chan acceptedCall, 1)
	go func() {
		who, s, err := h.Accept()
		c <- acceptedCall{who, s, err}
	}()
	return c
}

// meet calls home and returns both ends.
func meet(t testing.TB, h *Listener, ticket Ticket) (caller Caller, here, there oob.Stream) {
	t.Helper()
	there, err := Call(context.Background(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	a := <-accept(h)
	if a.err != nil {
		t.Fatal(a.err)
	}
	t.Cleanup(func() { there.Close(); a.s.Close() })
	return a.Caller, a.s, there
}

// The whole way: a ticket as JSON, a call, frames both ways, the end.
func TestCall(t *testing.T) {
	h := open(t, Config{})
	p, err := json.Marshal(h.invite(3, 5, 7))
	if err != nil {
		t.Fatal(err)
	}
	var ticket Ticket
	if err := json.Unmarshal(p, &ticket); err != nil {
		t.Fatal(err)
	}
	caller, here, there := meet(t, h, ticket)
	if caller.Node != 3 || caller.Agent != 5 || caller.Life != 7 {
		t.Errorf("the caller is %+v", caller)
	}
	if caller.Remote.(*net.TCPAddr).Port == 0 || caller.Local.String() != ticket.Addresses[0] {
		t.Errorf("it calls from %v to %v", caller.Remote, caller.Local)
	}
	a, b := oob.New(here), oob.New(there)
	data := bytes.Repeat([]byte("abcdefgh"), 100000)
	for _, c := range [][2]*oob.Conn{{a, b}, {b, a}} {
		go c[0].Send(oob.Msg{Kind: oob.Output, A: 1, Data: data})
		m, err := c[1].Recv()
		if err != nil || !bytes.Equal(m.Data, data) {
			t.Fatalf("%d bytes, %v", len(m.Data), err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Recv(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// One ticket used twice: the same caller twice.
func TestSameTicketTwice(t *testing.T) {
	h := open(t, Config{})
	ticket := h.invite(1, Keeper, 0)
	first, _, one := meet(t, h, ticket)
	second, two, _ := meet(t, h, ticket)
	if first.Node != second.Node || first.Agent != Keeper || second.Agent != Keeper {
		t.Errorf("first %+v, then %+v", first, second)
	}
	two.Close()
	go one.Write([]byte("x")) // the first is still there
}

// failed is the only attempt's error.
func failed(t *testing.T, err error) error {
	t.Helper()
	var e *CallError
	if !errors.As(err, &e) || len(e.Attempts) != 1 {
		t.Fatalf("got %v", err)
	}
	return e.Attempts[0].Err
}

// Whatever of a ticket is changed, it opens nothing.
func TestWrongTicket(t *testing.T) {
	h := open(t, Config{})
	other := open(t, Config{})
	for name, c := range map[string]struct {
		change func(*Ticket)
		want   error
	}{
		"token":         {func(t *Ticket) { t.Token[31] ^= 1 }, ErrRefused},
		"node":          {func(t *Ticket) { t.Node = 2 }, ErrRefused},
		"agent":         {func(t *Ticket) { t.Agent = 0 }, ErrRefused},
		"life":          {func(t *Ticket) { t.Life++ }, ErrRefused},
		"key":           {func(t *Ticket) { t.Fingerprint[0] ^= 1 }, ErrStranger},
		"another's":     {func(t *Ticket) { t.Token = other.Ticket(1, Keeper, 0).Token }, ErrRefused},
		"another's key": {func(t *Ticket) { t.Fingerprint = other.Ticket(1, Keeper, 0).Fingerprint }, ErrStranger},
	} {
		ticket := h.invite(1, Keeper, 0)
		c.change(&ticket)
		s, err := Call(context.Background(), ticket)
		if s != nil {
			t.Fatalf("%s: a stream", name)
		}
		if err := failed(t, err); err != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := h.Stats(); s.Accepted != 0 {
		t.Errorf("%+v", s)
	}
}

// The error names every address and why it failed.
func TestCallErrorNamesAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	h := open(t, Config{Job: "mine"})
	ticket := open(t, Config{}).Ticket(0, 0, 0)
	ticket.Job = "mine"
	ticket.Addresses = []string{closed, h.address(), "no port"}
	_, err = Call(context.Background(), ticket)
	if err == nil {
		t.Fatal("a stream")
	}
	for _, want := range []string{"job mine", closed + ": connection refused", h.address() + ": " + ErrStranger.Error(), "no port: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	ticket.Addresses = nil
	if _, err := Call(context.Background(), ticket); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("without addresses: %v", err)
	}
}

// A dead address holds nobody up: the next is tried meanwhile.
func TestSilentAddress(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	h := open(t, Config{})
	ticket := h.invite(0, 0, 0)
	ticket.Addresses = []string{silent.Addr().String(), ticket.Addresses[0], ticket.Addresses[0]}
	meet(t, h, ticket)
	if s := h.Stats(); s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
}

// A call ends with its context.
func TestCallCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ticket := open(t, Config{}).Ticket(0, 0, 0)
	ticket.Addresses = []string{silent.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		c, err := silent.Accept()
		if err == nil {
			c.Read(make([]byte, 1))
			defer c.Close()
		}
		cancel()
	}()
	if _, err := Call(ctx, ticket); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on loopback: %v", err)
	}
	l.Close()
	h := open(t, Config{})
	ticket := h.invite(0, 0, 0)
	ticket.Addresses[0] = strings.Replace(ticket.Addresses[0], "127.0.0.1", "[::1]", 1)
	if c, _, _ := meet(t, h, ticket); !c.Local.(*net.TCPAddr).IP.Equal(net.IPv6loopback) {
		t.Errorf("reached at %v", c.Local)
	}
}

// A stream's Close does not wait for a peer that takes nothing, and ends a blocked Read and Write.
func TestCloseUnblocks(t *testing.T) {
	h := open(t, Config{})
	_, here, _ := meet(t, h, h.invite(0, 0, 0))
	ended := make(chan error, 2)
	go func() {
		_, err := here.Read(make([]byte, 1))
		ended <- err
	}()
	here.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	for {
		if _, err := here.Write(make([]byte, 1<<20)); err != nil {
			break // all buffers are full
		}
	}
	here.Close()
	if err := <-ended; err == nil {
		t.Error("Read returned nothing wrong")
	}
}

// Close ends Accept and the callers that it has not returned.
func TestClose(t *testing.T) {
	h := open(t, Config{})
	there, err := Call(context.Background(), h.invite(0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-accept(h); !errors.Is(a.err, net.ErrClosed) {
		t.Errorf("Accept: %v", a.err)
	}
	if _, err := there.Read(make([]byte, 1)); err == nil {
		t.Error("the caller's stream is still open")
	}
	if err := h.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// Those who know a secret in common make the tickets themselves.
func TestDerive(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, MinSecret)
	h := open(t, Config{Secret: secret, Job: "pods"})
	ticket, err := Derive(secret, "pods", []string{h.address()}, 4, Keeper, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, _ := meet(t, h, ticket); c.Node != 4 {
		t.Errorf("the caller is %+v", c)
	}
	ticket, _ = Derive(secret, "others", []string{h.address()}, 4, Keeper, 0)
	if _, err := Call(context.Background(), ticket); !errors.Is(err, ErrStranger) {
		t.Errorf("with another job's ticket: %v", err)
	}
	if _, err := Derive(secret[1:], "pods", nil, 4, Keeper, 0); !errors.Is(err, ErrSecret) {
		t.Errorf("short secret: %v", err)
	}
	if _, err := Listen(Config{Secret: secret[1:]}); !errors.Is(err, ErrSecret) {
		t.Errorf("short secret: %v", err)
	}
}

func TestTicketKeepsItsToken(t *testing.T) {
	h := open(t, Config{})
	ticket := h.Ticket(1, 2, 3)
	p, err := json.Marshal(ticket)
	if err != nil {
		t.Fatal(err)
	}
	var back Ticket
	if err := json.Unmarshal(p, &back); err != nil || back.Token != ticket.Token || back.Fingerprint != ticket.Fingerprint || back.Job != ticket.Job {
		t.Errorf("%v: %s", err, p)
	}
	for _, bad := range []string{`{}`, `{"token":"00"}`, `null`, strings.Replace(string(p), `"node":1`, `"node":-1`, 1)} {
		if err := json.Unmarshal([]byte(bad), new(Ticket)); err == nil {
			t.Errorf("%s is a ticket", bad)
		}
	}
}
