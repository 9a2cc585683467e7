package oob

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// headSize is the size of a frame without its data, the length word included.
const headSize = 48

// ErrFrame is wrapped by every error about a malformed frame.
var ErrFrame = errors.New("oob: malformed frame")

// Append encodes m behind dst and returns the longer slice.
func Append(dst []byte, m *Msg) ([]byte, error) {
	n := headSize - 4 + len(m.Data)
	if n > MaxMsg {
		return dst, fmt.Errorf("%w: kind %d with %d bytes of data, the limit is %d", ErrFrame, m.Kind, len(m.Data), MaxMsg)
	}
	var h [headSize]byte
	le := binary.LittleEndian
	le.PutUint32(h[0:], uint32(n))
	h[4] = byte(m.Kind)
	le.PutUint32(h[8:], uint32(m.From))
	le.PutUint32(h[12:], uint32(m.To))
	le.PutUint64(h[16:], m.Incarnation)
	le.PutUint32(h[24:], m.Attempt)
	le.PutUint64(h[32:], m.A)
	le.PutUint64(h[40:], m.B)
	return append(append(dst, h[:]...), m.Data...), nil
}

// frameLen reads the length word of a frame and returns the frame's whole size
// in bytes, the word included.
func frameLen(p []byte) (int, error) {
	n := binary.LittleEndian.Uint32(p)
	if n < headSize-4 || n > MaxMsg {
		return 0, fmt.Errorf("%w: length %d", ErrFrame, n)
	}
	return int(n) + 4, nil
}

// Decode reads one frame from the start of p and returns the rest. The data of
// the message aliases p.
func Decode(p []byte) (m Msg, rest []byte, err error) {
	if len(p) < headSize {
		return m, p, fmt.Errorf("%w: %d bytes are no frame", ErrFrame, len(p))
	}
	n, err := frameLen(p)
	if err != nil {
		return m, p, err
	}
	if n > len(p) {
		return m, p, fmt.Errorf("%w: %d bytes announced, %d there", ErrFrame, n, len(p))
	}
	le := binary.LittleEndian
	m = Msg{
		Kind:        Kind(p[4]),
		From:        int32(le.Uint32(p[8:])),
		To:          int32(le.Uint32(p[12:])),
		Incarnation: le.Uint64(p[16:]),
		Attempt:     le.Uint32(p[24:]),
		A:           le.Uint64(p[32:]),
		B:           le.Uint64(p[40:]),
	}
	if m.Kind == 0 || m.Kind >= kinds {
		return m, p, fmt.Errorf("%w: unknown kind %d", ErrFrame, m.Kind)
	}
	if n > headSize {
		m.Data = p[headSize:n]
	}
	return m, p[n:], nil
}
