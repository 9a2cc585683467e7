package oob

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Stream carries frames: a socket, a net.Conn, or anything else with deadlines. A call that blocks in it holds
// no thread, and returns when the stream is closed.
type Stream interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Conn is one stream of frames. Send may be called by any number of goroutines,
// Recv by one at a time. A blocked Send or Recv holds no thread.
type Conn struct {
	s  Stream
	r  *bufio.Reader
	mu sync.Mutex // serialises writers
	w  []byte     // encoded and not yet written
}

// New takes over a stream; Close closes it.
func New(s Stream) *Conn { return &Conn{s: s, r: bufio.NewReaderSize(s, 32<<10)} }

// Socket makes a stream of a connected socket's descriptor.
func Socket(fd int) (Stream, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("oob: descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "oob"), nil
}

// NewConn takes over a connected stream socket; Close closes it.
func NewConn(fd int) (*Conn, error) {
	s, err := Socket(fd)
	if err != nil {
		return nil, err
	}
	return New(s), nil
}

// Pair makes a connected pair of close-on-exec stream descriptors.
func Pair() (a, b int, err error) {
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("oob: socketpair: %w", err)
	}
	return p[0], p[1], nil
}

// Send writes frames, all in one write.
func (c *Conn) Send(ms ...Msg) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf := c.w[:0]
	var err error
	for i := range ms {
		if buf, err = Append(buf, &ms[i]); err != nil {
			return err
		}
	}
	_, err = c.s.Write(buf)
	if cap(buf) <= 1<<20 {
		c.w = buf
	}
	return err
}

// Recv reads the next frame. It returns io.EOF when the other side is gone. The data of the message belongs to
// the caller.
func (c *Conn) Recv() (Msg, error) {
	h, err := c.r.Peek(headSize)
	if err != nil {
		if errors.Is(err, io.EOF) && len(h) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return Msg{}, closed(err)
	}
	n, err := frameLen(h)
	if err != nil {
		return Msg{}, err
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(c.r, p); err != nil {
		return Msg{}, closed(err)
	}
	m, _, err := Decode(p)
	return m, err
}

// Buffered reports whether a Recv would find bytes without reading.
func (c *Conn) Buffered() bool { return c.r.Buffered() >= headSize }

// closed maps the errors by which a peer's end shows to io.EOF.
func closed(err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// SetReadDeadline bounds the Recv calls that follow; the zero time lifts it.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.s.SetReadDeadline(t) }

// Close closes the stream; a Recv in progress returns io.EOF.
func (c *Conn) Close() error { return c.s.Close() }

// Greet exchanges the first frames: it sends ours and reads theirs. It refuses a partner with which we share no
// version.
func (c *Conn) Greet(self HelloInfo, from int32) (HelloInfo, error) {
	data, err := json.Marshal(self)
	if err != nil {
		return HelloInfo{}, err
	}
	if err := c.Send(Msg{Kind: Hello, From: from, A: VersionMin, B: VersionMax, Data: data}); err != nil {
		return HelloInfo{}, err
	}
	m, err := c.Recv()
	if err != nil {
		return HelloInfo{}, err
	}
	return CheckHello(&m)
}

// CheckHello reads a partner's Hello. It refuses a partner with which we share no version.
func CheckHello(m *Msg) (HelloInfo, error) {
	var h HelloInfo
	if m.Kind != Hello {
		return h, fmt.Errorf("%w: kind %d where a greeting was expected", ErrFrame, m.Kind)
	}
	if m.A > VersionMax || m.B < VersionMin {
		return h, fmt.Errorf("oob: partner speaks protocol versions %d to %d, this side %d to %d: build the program and gorun from releases that go together",
			m.A, m.B, VersionMin, VersionMax)
	}
	if err := json.Unmarshal(m.Data, &h); err != nil {
		return h, fmt.Errorf("%w: greeting: %v", ErrFrame, err)
	}
	return h, nil
}
