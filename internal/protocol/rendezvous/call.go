package rendezvous

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Errors of Call, each wrapped by a CallError.
var (
	// ErrRefused says that the home is the right one, and that the ticket is not.
	ErrRefused = errors.New("the head refuses this ticket: its token is not that of the caller it names")
	// ErrStranger says that the wrong process answers.
	ErrStranger = errors.New("another process answers there, or somebody between: its key is not that of the ticket")
	// ErrVersion says that the home speaks another version of this protocol.
	ErrVersion = errors.New("the head speaks another version: use the same gorun on all nodes")
	// ErrDropped says that the home ended the connection before it answered.
	ErrDropped = errors.New("the connection was ended before the head answered")
)

// Times of a call.
const (
	stagger  = 250 * time.Millisecond // until the next address is tried, too
	patience = 10 * time.Second       // for one connection, and with one address that drops us
)

// CallError tells why no address of a ticket led home.
type CallError struct {
	Job      string
	Attempts []Attempt
}

// Attempt is the outcome of one address.
type Attempt struct {
	Address string
	Err     error
}

func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "calling home to the head of job %s", e.Job)
	if len(e.Attempts) == 0 {
		b.WriteString(": its ticket names no address")
	}
	for i, a := range e.Attempts {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		fmt.Fprintf(&b, "%s: %v", a.Address, a.Err)
	}
	return b.String()
}

// Unwrap returns the errors of all attempts.
func (e *CallError) Unwrap() []error {
	var errs []error
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

// Call calls home. It tries the addresses of the ticket in their order, each a quarter of a second
// after the one before, or as soon as all before have failed. The first on which the home has
// proved itself wins. Proofs are sent on one connection at a time, so the home accepts one only,
// unless its answer is lost. An address that drops connections is tried for ten seconds. Every
// error is a *CallError. The caller owns the stream.
func Call(ctx context.Context, t Ticket) (oob.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{ticket: t, turn: make(chan struct{}, 1), results: make(chan result, len(t.Addresses))}
	attempts := make([]Attempt, len(t.Addresses))
	for i, a := range t.Addresses {
		attempts[i] = Attempt{a, errors.New("not tried any more")}
	}
	started, running := 0, 0
	next := time.NewTimer(0)
	defer next.Stop()
	defer func() {
		cancel()
		for ; running > 0; running-- {
			<-c.results // all have failed: a winner would have kept the turn
		}
	}()
	for {
		if running == 0 && started == len(t.Addresses) {
			return nil, &CallError{t.Job, attempts}
		}
		select {
		case <-next.C:
			if started < len(t.Addresses) {
				go c.attempt(ctx, started)
				started++
				running++
				next.Reset(stagger)
			}
		case r := <-c.results:
			running--
			if r.err == nil {
				return r.stream, nil
			}
			attempts[r.i].Err = r.err
			if errors.Is(r.err, ErrRefused) || ctx.Err() != nil {
				return nil, &CallError{t.Job, attempts}
			}
			if running == 0 {
				next.Reset(0)
			}
		}
	}
}

// call is one Call.
type call struct {
	ticket  Ticket
	turn    chan struct{} // full: an attempt sends its proof, or has won
	results chan result
}

type result struct {
	i      int
	stream *stream
	err    error
}

// attempt tries address i. If the home has no place for this call, it is tried again.
func (c *call) attempt(ctx context.Context, i int) {
	const first, last = 50 * time.Millisecond, time.Second
	began := time.Now()
	for pause := first; ; pause = min(2*pause, last) {
		s, err := c.once(ctx, c.ticket.Addresses[i])
		if !errors.Is(err, ErrDropped) || time.Since(began) > patience {
			c.results <- result{i, s, err}
			return
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			c.results <- result{i, nil, err}
			return
		}
	}
}

// once makes one connection.
func (c *call) once(ctx context.Context, address string) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := net.Dialer{KeepAlive: -1}
	tcp, err := d.DialContext(ctx, "tcp", address)
	if errors.Is(err, syscall.ECONNRESET) { // it was dropped before this process noticed that it was connected
		return nil, ErrDropped
	}
	if err != nil {
		return nil, plain(err)
	}
	raw := newConn(tcp)
	stop := context.AfterFunc(ctx, raw.drop)
	s, err := c.prove(ctx, raw)
	if !stop() && err == nil { // too late: it is being dropped
		err = ctx.Err()
	}
	if err != nil {
		raw.drop()
		return nil, c.because(ctx, err)
	}
	return s, nil
}

// prove proves our identity to the other side, if it is the home, and reads its proof.
func (c *call) prove(ctx context.Context, raw *conn) (*stream, error) {
	t := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection does
		VerifyConnection:   c.known,
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{protocol},

		DynamicRecordSizingDisabled: true,
	})
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	x, err := exported(t)
	if err != nil {
		return nil, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, err := c.answered(t, raw, x)
	if err != nil {
		<-c.turn
	}
	return s, err
}

// known checks that the key of the certificate is the one of the ticket.
func (c *call) known(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 || sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo) != c.ticket.Fingerprint {
		return ErrStranger
	}
	return nil
}

// answered sends the proof and checks the answer.
func (c *call) answered(t *tls.Conn, raw *conn, x []byte) (*stream, error) {
	id, token := c.ticket.identity(), c.ticket.Token
	own := claim{id, prove(token, asCaller, x, id)}
	if _, err := t.Write(own.append(nil)); err != nil {
		return nil, err
	}
	var p [answerSize]byte
	if _, err := io.ReadFull(t, p[:]); err != nil {
		return nil, err
	}
	verdict, proof, err := parseAnswer(p[:])
	if err != nil {
		return nil, err
	}
	if verdict == refused {
		return nil, ErrRefused
	}
	if want := prove(token, asHome, x, id); !hmac.Equal(want[:], proof[:]) {
		return nil, ErrStranger
	}
	return newStream(t, raw)
}

// because says in plain words why a connection failed.
func (c *call) because(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("connected, but no answer within %v", patience)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == noProtocol:
		return ErrVersion
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrDropped
	}
	return plain(err)
}

// noProtocol is the text of RFC 7301's alert no_application_protocol, as package tls has it.
var noProtocol = tls.AlertError(120).Error()

// plain removes the addresses that package net puts into errors, which the message has anyway.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return err
}
