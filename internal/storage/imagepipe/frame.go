package imagepipe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Kinds of frames of the child, and states of answers.
const (
	kindWrite = 'w'
	kindEnd   = 'e'
	kindSize  = 's'
	kindRead  = 'r'
	kindOpen  = 'o'

	statusDone   = 0
	statusFailed = 1
	statusEOF    = 2
)

const (
	maxFrame   = 1 << 20 // bytes of a piece in one frame
	maxText    = 4 << 10 // bytes of an error's text
	frameSize  = 13
	answerSize = 5
)

// frame is the head of what the child sends.
type frame struct {
	kind byte
	off  int64
	n    int
}

func (f frame) encode() []byte {
	p := append(make([]byte, 0, frameSize), f.kind)
	p = binary.BigEndian.AppendUint64(p, uint64(f.off))
	return binary.BigEndian.AppendUint32(p, uint32(f.n))
}

func readFrame(r io.Reader) (frame, error) {
	var p [frameSize]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return frame{}, err
	}
	off, n := binary.BigEndian.Uint64(p[1:]), binary.BigEndian.Uint32(p[9:])
	f := frame{p[0], int64(off), int(n)}
	if f.off < 0 || f.off+maxFrame < 0 || n > maxFrame {
		return f, fmt.Errorf("%w: kind %q, %d bytes at %d", ErrProtocol, f.kind, n, off)
	}
	return f, nil
}

func writeAnswer(w io.Writer, status byte, p []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{status}, uint32(len(p)))
	bufs := net.Buffers{head, p}
	_, err := bufs.WriteTo(w)
	return err
}

// failed says what has gone wrong.
func failed(w io.Writer, err error) error {
	text := err.Error()
	return writeAnswer(w, statusFailed, []byte(text[:min(len(text), maxText)]))
}

// readAnswer reads an answer of at most len(p) bytes into p. io.EOF: the piece ends there. An error
// reported by the agent is returned as one.
func readAnswer(r io.Reader, p []byte) (int, error) {
	var head [answerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, fmt.Errorf("its agent has ended: %w", err)
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	switch status := head[0]; {
	case status == statusFailed && n <= maxText:
		text := make([]byte, n)
		if _, err := io.ReadFull(r, text); err != nil {
			return 0, err
		}
		return 0, errors.New(string(text))
	case status > statusEOF || n > len(p):
		return 0, fmt.Errorf("%w: status %d, %d bytes", ErrProtocol, status, n)
	case status == statusEOF:
		n, err := io.ReadFull(r, p[:n])
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return io.ReadFull(r, p[:n])
}

// serveWriter writes what the child sends. After a failure it reads on to the end, so that the
// child gets the error.
func serveWriter(c io.ReadWriter, create func() (store.Writer, error)) {
	w, err := create()
	if err == nil {
		defer w.Abort()
	}
	buf := make([]byte, maxFrame)
	for {
		f, ferr := readFrame(c)
		if ferr != nil {
			return
		}
		switch f.kind {
		case kindWrite:
			if _, e := io.ReadFull(c, buf[:f.n]); e != nil {
				return
			}
			if err == nil {
				_, err = w.WriteAt(buf[:f.n], f.off)
			}
		case kindEnd:
			if err == nil {
				err = w.Commit(f.off)
			}
			if err != nil {
				failed(c, err)
				return
			}
			writeAnswer(c, statusDone, nil)
			return
		default:
			return
		}
	}
}

// serveShelf finds the image that the child asks for, and answers reads unless the child can read it itself.
func serveShelf(c io.ReadWriter, find func(rank, copy int) (string, store.Reader, error)) {
	f, err := readFrame(c)
	if err != nil {
		return
	}
	if f.kind != kindOpen {
		failed(c, errOlder)
		return
	}
	switch path, r, err := find(int(f.off), f.n); {
	case errors.Is(err, io.EOF):
		writeAnswer(c, statusEOF, nil)
	case err != nil:
		failed(c, err)
	case r == nil:
		writeAnswer(c, statusDone, []byte(path))
	case writeAnswer(c, statusDone, nil) != nil:
		r.Close()
	default:
		serveReader(c, func() (store.Reader, error) { return r, nil })
	}
}

var errOlder = errors.New("this program was built with an older gorun, which does not support a restart with another number of ranks: build it again")

// serveReader answers reads.
func serveReader(c io.ReadWriter, source func() (store.Reader, error)) {
	r, err := source()
	if err == nil {
		defer r.Close()
	}
	buf := make([]byte, maxFrame)
	for {
		f, ferr := readFrame(c)
		switch {
		case ferr != nil:
			return
		case err != nil:
			ferr = failed(c, err)
		case f.kind == kindSize:
			ferr = writeAnswer(c, statusDone, binary.BigEndian.AppendUint64(nil, uint64(r.Size())))
		case f.kind == kindRead:
			ferr = answerRead(c, r, buf[:f.n], f.off)
		default:
			return
		}
		if ferr != nil {
			return
		}
	}
}

func answerRead(c io.Writer, r store.Reader, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return writeAnswer(c, statusDone, p)
	case errors.Is(err, io.EOF):
		return writeAnswer(c, statusEOF, p[:n])
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return failed(c, err)
}

// writer is the child's side of a piece that it writes.
type writer struct {
	mu     sync.Mutex
	c      net.Conn
	closed bool
}

// WriteAt sends p.
func (w *writer) WriteAt(p []byte, off int64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, store.ErrClosed
	}
	for n < len(p) {
		k := min(maxFrame, len(p)-n)
		bufs := net.Buffers{frame{kindWrite, off + int64(n), k}.encode(), p[n : n+k]}
		if _, err := bufs.WriteTo(w.c); err != nil {
			return n, fmt.Errorf("its agent has ended: %w", err)
		}
		n += k
	}
	return n, nil
}

// Commit waits until the agent has committed the piece.
func (w *writer) Commit(size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return store.ErrClosed
	}
	w.closed = true
	defer w.c.Close()
	if _, err := w.c.Write(frame{kindEnd, size, 0}.encode()); err != nil {
		return fmt.Errorf("its agent has ended: %w", err)
	}
	_, err := readAnswer(w.c, nil)
	return err
}

// Abort gives the piece up.
func (w *writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.c.Close()
	return nil
}

// reader is the child's side of a piece that it reads.
type reader struct {
	mu   sync.Mutex
	c    net.Conn
	size int64
}

func newReader(name string) (*reader, error) {
	c, err := dial(name)
	if err != nil {
		return nil, err
	}
	return readerOn(c)
}

// readerOn is the reader of what the other side offers on a connection, which it closes after an error.
func readerOn(c net.Conn) (*reader, error) {
	r := &reader{c: c}
	var p [8]byte
	if _, err := c.Write(frame{kind: kindSize}.encode()); err != nil {
		c.Close()
		return nil, err
	}
	n, err := readAnswer(c, p[:])
	if err == nil && n < len(p) {
		err = fmt.Errorf("%w: a size of %d bytes", ErrProtocol, n)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if r.size = int64(binary.BigEndian.Uint64(p[:])); r.size < 0 {
		c.Close()
		return nil, fmt.Errorf("%w: a piece of %d bytes", ErrProtocol, r.size)
	}
	return r, nil
}

// Size is the piece's.
func (r *reader) Size() int64 { return r.size }

// Close ends reading.
func (r *reader) Close() error { return r.c.Close() }

// ReadAt asks for p, a frame at a time.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("%w: offset %d", ErrProtocol, off)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) {
		part := p[n:min(len(p), n+maxFrame)]
		if _, err := r.c.Write(frame{kindRead, off + int64(n), len(part)}.encode()); err != nil {
			return n, fmt.Errorf("its agent has ended: %w", err)
		}
		k, err := readAnswer(r.c, part)
		n += k
		if err != nil {
			return n, err
		}
		if k < len(part) {
			return n, fmt.Errorf("%w: %d bytes of %d", ErrProtocol, k, len(part))
		}
	}
	return n, nil
}
