package moduletest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// Frame is one frame as a sink has seen it.
type Frame struct {
	rpi.Header
	Payload []byte // as much of it as was wanted
}

// String is the frame's tag and length.
func (f Frame) String() string { return fmt.Sprintf("%d/%d", f.Tag, f.Len) }

// Eager is the header of an eager message of n bytes.
func Eager(tag, n int) rpi.Header {
	return rpi.Header{Kind: rpi.Eager, Tag: int32(tag), Ctx: 5, Len: uint64(n)}
}

// Pattern is a payload that depends on its number and position.
func Pattern(seed, n int) []byte {
	p := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

// Check fails the test unless f has this tag and the Pattern with the tag's number,
// n bytes long.
func Check(t testing.TB, f Frame, tag, n int) {
	t.Helper()
	if f.Tag != int32(tag) || f.PayloadLen() != n || !bytes.Equal(f.Payload, Pattern(tag, n)) {
		t.Fatalf("frame with tag %d, %d bytes: want tag %d, %d bytes, or the payload differs", f.Tag, len(f.Payload), tag, n)
	}
}

// Sink stands in for an engine: it records all that it is told.
type Sink struct {
	Got      [][]Frame       // ended frames, by peer
	Received []uint64        // their bytes by peer, as the bookmarks count
	Returned map[rpi.Ref]int // how often each payload was given back
	Room     []int           // how often each peer was said to be writable
	Downs    map[int][]error // by peer

	Keep       func(h *rpi.Header) int // how much of a payload is wanted; nil: all
	Refuse     error                   // Begin's answer
	Enough     func() bool             // whether Deliver asks for a pause; nil: never
	Alike      func() int              // how many DeliverAlike takes at most; nil: none
	OnSent     func(peer int, ref rpi.Ref)
	OnWritable func(peer int)
	OnEnd      func(peer int)

	begun []*Frame
}

// NewSink returns the sink of a rank of a job of n.
func NewSink(n int) *Sink {
	return &Sink{
		Got: make([][]Frame, n), begun: make([]*Frame, n), Room: make([]int, n),
		Received: make([]uint64, n), Returned: map[rpi.Ref]int{}, Downs: map[int][]error{},
	}
}

// Begin returns a new buffer, or Refuse. It panics if the peer's last frame has not
// ended.
func (s *Sink) Begin(peer int, h *rpi.Header) ([]byte, error) {
	if s.Refuse != nil {
		return nil, s.Refuse
	}
	if s.begun[peer] != nil {
		panic("Begin within a frame")
	}
	n := h.PayloadLen()
	if s.Keep != nil {
		n = s.Keep(h)
	}
	f := &Frame{*h, make([]byte, n)}
	s.begun[peer] = f
	return f.Payload, nil
}

// End adds the frame to Got.
func (s *Sink) End(peer int) {
	f := s.begun[peer]
	s.begun[peer] = nil
	s.Got[peer] = append(s.Got[peer], *f)
	s.Received[peer] += f.Counted()
	if s.OnEnd != nil {
		s.OnEnd(peer)
	}
}

// Deliver is Begin and End.
func (s *Sink) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := s.Begin(peer, h)
	if err != nil {
		return err
	}
	copy(dst, payload)
	s.End(peer)
	if s.Enough != nil && s.Enough() {
		return rpi.Enough
	}
	return nil
}

// DeliverAlike is Deliver for some of the frames.
func (s *Sink) DeliverAlike(peer int, h *rpi.Header, payloads []byte, count int) (taken int, enough bool) {
	if s.Alike == nil || s.Refuse != nil {
		return 0, false
	}
	n := h.PayloadLen()
	if len(payloads) != n*count {
		panic("payloads of another length")
	}
	for most := min(count, s.Alike()); taken < most && !enough; taken++ {
		enough = rpi.IsEnough(s.Deliver(peer, h, payloads[taken*n:][:n]))
	}
	return taken, enough
}

// Sent counts in Returned.
func (s *Sink) Sent(peer int, ref rpi.Ref) {
	s.Returned[ref]++
	if s.OnSent != nil {
		s.OnSent(peer, ref)
	}
}

// Writable counts in Room.
func (s *Sink) Writable(peer int) {
	s.Room[peer]++
	if s.OnWritable != nil {
		s.OnWritable(peer)
	}
}

// Down adds to Downs.
func (s *Sink) Down(peer int, err error) {
	s.begun[peer] = nil
	s.Downs[peer] = append(s.Downs[peer], err)
}
