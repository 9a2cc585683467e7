package rendezvous

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MaxUnproved bounds the bytes that are read of a connection before the proof, at either side. A handshake and
// a proof are 2 KB.
const MaxUnproved = 16 << 10

// farewell bounds how long Close tries to tell the peer.
const farewell = 100 * time.Millisecond

var errTooMuch = errors.New("more bytes than a caller sends before its proof")

// conn is the TCP connection below TLS. It bounds what is read before the proof, and what closing waits for.
type conn struct {
	net.Conn
	proved  bool // set by the one goroutine that reads until then
	left    int  // bytes that may still be read before
	closing atomic.Bool
	since   time.Time
	dropped bool // by the home, in favour of a newer one; under its lock
}

func newConn(c net.Conn) *conn {
	repeatOften(c)
	return &conn{Conn: c, left: MaxUnproved, since: time.Now()}
}

// repeatOften makes the kernel retransmit about once a second. By default the kernel doubles the
// pause each time. After a cut of the network the connection would stay silent for as long
// again, and a lease could expire meanwhile. Kernels before 6.15 know only the second option,
// which is for the first repetitions.
func repeatOften(c net.Conn) {
	const rtoMax, second = 44, 1000 // TCP_RTO_MAX_MS
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, rtoMax, second) != nil {
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
			}
		})
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if c.proved {
		return c.Conn.Read(p)
	}
	if c.left == 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// SetWriteDeadline is called by TLS as well, with seconds for its farewell.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if limit := time.Now().Add(farewell); c.closing.Load() && (t.IsZero() || t.After(limit)) {
		t = limit
	}
	return c.Conn.SetWriteDeadline(t)
}

// drop resets the connection, so the kernel keeps no state for it.
func (c *conn) drop() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Conn.Close()
}

// stream is a proved connection.
type stream struct {
	tls *tls.Conn
	raw *conn
}

// newStream lifts the bounds of the time before the proof.
func newStream(t *tls.Conn, raw *conn) (*stream, error) {
	raw.proved = true
	return &stream{t, raw}, raw.SetDeadline(time.Time{})
}

func (s *stream) Read(p []byte) (int, error)         { return s.tls.Read(p) }
func (s *stream) Write(p []byte) (int, error)        { return s.tls.Write(p) }
func (s *stream) SetReadDeadline(t time.Time) error  { return s.tls.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.tls.SetWriteDeadline(t) }

// LocalAddr and RemoteAddr are those of the connection.
func (s *stream) LocalAddr() net.Addr  { return s.raw.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr { return s.raw.RemoteAddr() }

// Close ends both directions. A peer that reads nothing does not get the farewell of TLS, which is
// not an error.
func (s *stream) Close() error {
	s.raw.closing.Store(true)
	if err := s.tls.Close(); errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
