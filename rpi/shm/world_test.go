package shm

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// frame is one frame as a sink has seen it.
type frame struct {
	h rpi.Header
	p []byte
}

// sink stands in for the engine: it writes down everything it is told.
type sink struct {
	got      [][]frame // ended frames, by peer
	begun    []*frame
	sent     map[rpi.Ref]int
	writable []int
	downs    map[int][]error
	received []uint64 // bytes by peer, as the bookmarks count

	keep    func(h *rpi.Header) int // how much of a payload is wanted; nil: all
	refuse  error                   // Begin's answer
	enough  func() bool             // whether Deliver asks for a pause; nil: never
	onSent  func(peer int, ref rpi.Ref)
	onWrite func(peer int)
	onEnd   func(peer int)
}

func newSink(n int) *sink {
	return &sink{
		got: make([][]frame, n), begun: make([]*frame, n), writable: make([]int, n),
		received: make([]uint64, n), sent: map[rpi.Ref]int{}, downs: map[int][]error{},
	}
}

func (s *sink) Begin(peer int, h *rpi.Header) ([]byte, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	if s.begun[peer] != nil {
		panic("Begin within a frame")
	}
	n := h.PayloadLen()
	if s.keep != nil {
		n = s.keep(h)
	}
	f := &frame{*h, make([]byte, n)}
	s.begun[peer] = f
	return f.p, nil
}

func (s *sink) End(peer int) {
	f := s.begun[peer]
	s.begun[peer] = nil
	s.got[peer] = append(s.got[peer], *f)
	s.received[peer] += f.h.Counted()
	if s.onEnd != nil {
		s.onEnd(peer)
	}
}

func (s *sink) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := s.Begin(peer, h)
	if err != nil {
		return err
	}
	copy(dst, payload)
	s.End(peer)
	if s.enough != nil && s.enough() {
		return rpi.Enough
	}
	return nil
}

func (s *sink) Sent(peer int, ref rpi.Ref) {
	s.sent[ref]++
	if s.onSent != nil {
		s.onSent(peer, ref)
	}
}

func (s *sink) Writable(peer int) {
	s.writable[peer]++
	if s.onWrite != nil {
		s.onWrite(peer)
	}
}

func (s *sink) Down(peer int, err error) {
	s.begun[peer] = nil
	s.downs[peer] = append(s.downs[peer], err)
}

// world is a job in one goroutine: every module is polled by the test.
type world struct {
	t    testing.TB
	m    []*Module
	s    []*sink
	addr [][]byte
}

var secret = []byte("the secret of this incarnation..")

func env(rank, size int) rpi.Env {
	return rpi.Env{Rank: rank, Size: size, Incarnation: 77, Secret: secret, Params: map[string]string{}}
}

func newWorld(t testing.TB, n int, change ...func(*rpi.Env)) *world {
	w := &world{t: t}
	for rank := range n {
		e := env(rank, n)
		for _, f := range change {
			f(&e)
		}
		s := newSink(n)
		e.Sink = s
		m := New()
		addr, err := m.Start(e)
		if err != nil {
			t.Fatal(err)
		}
		w.m, w.s, w.addr = append(w.m, m), append(w.s, s), append(w.addr, addr)
	}
	for _, m := range w.m {
		if err := m.Peers(w.addr); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) close() {
	for _, m := range w.m {
		m.Close()
	}
}

func (w *world) poll() {
	for _, m := range w.m {
		m.Poll()
	}
}

// until polls until cond holds.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	for begin := time.Now(); !cond(); w.poll() {
		if time.Since(begin) > 20*time.Second {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// send insists until the frame is accepted.
func (w *world) send(from, to int, h rpi.Header, p []byte, ref rpi.Ref, more bool) rpi.SendResult {
	w.t.Helper()
	var r rpi.SendResult
	w.until("frame accepted", func() bool {
		r = w.m[from].Send(to, &h, p, ref, more)
		return r != rpi.Full
	})
	return r
}

// connect opens the ring of a pair.
func (w *world) connect(from, to int) {
	w.t.Helper()
	before := len(w.s[to].got[from])
	w.send(from, to, eager(0, 0), nil, 0, false)
	w.until("connected", func() bool { return len(w.s[to].got[from]) > before })
	w.s[to].got[from] = nil
	w.s[to].received[from] = 0
}

func eager(tag, n int) rpi.Header {
	return rpi.Header{Kind: rpi.Eager, Tag: int32(tag), Ctx: 5, Len: uint64(n)}
}

// pattern is a payload that depends on its number and position.
func pattern(seed, n int) []byte {
	p := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

func check(t testing.TB, f frame, tag, n int) {
	t.Helper()
	if f.h.Tag != int32(tag) || f.h.PayloadLen() != n || !bytes.Equal(f.p, pattern(tag, n)) {
		t.Fatalf("frame with tag %d, %d bytes: want tag %d, %d bytes, or the payload differs", f.h.Tag, len(f.p), tag, n)
	}
}

// descriptors counts the open descriptors of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func with(name, value string) func(*rpi.Env) {
	return func(e *rpi.Env) { e.Params[name] = value }
}

func (f frame) String() string { return fmt.Sprintf("%d/%d", f.h.Tag, f.h.Len) }
