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

// Conn is one stream of frames. Send may be called by any number of goroutines,
// Recv by one at a time. A blocked Send or Recv holds no thread.
type Conn struct {
	f  *os.File
	r  *bufio.Reader
	mu sync.Mutex // serialises writers
	w  []byte     // encoded and not yet written
}

// NewConn takes over a connected stream socket; Close closes it.
func NewConn(fd int) (*Conn, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("oob: descriptor %d: %w", fd, err)
	}
	f := os.NewFile(uintptr(fd), "oob")
	return &Conn{f: f, r: bufio.NewReaderSize(f, 32<<10)}, nil
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
	_, err = c.f.Write(buf)
	if cap(buf) <= 1<<20 {
		c.w = buf
	}
	return err
}

// Recv reads the next frame; io.EOF when the other side is gone. The data of
// the message belongs to the caller.
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

// closed maps the ways in which a peer's end shows itself to io.EOF.
func closed(err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// SetReadDeadline bounds the Recv calls that follow; the zero time lifts it.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.f.SetReadDeadline(t) }

// Close closes the stream; a Recv in progress returns io.EOF.
func (c *Conn) Close() error { return c.f.Close() }

// Greet exchanges the first frames: sends ours, reads theirs, and refuses a
// partner with which no version is shared.
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

// CheckHello reads a partner's Hello and refuses one with which no version is
// shared.
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
