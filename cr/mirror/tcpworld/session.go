package tcpworld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// session is one life at one member: its connections, none of which outlives it.
type session struct {
	w      *World
	view   view
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	ended bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup // their readers
	outs  map[way]*out
	boxes map[box]chan []byte
}

// way is a connection to another member.
type way struct {
	to   int
	kind uint8
}

type out struct {
	mu sync.Mutex
	c  net.Conn
}

// box is where messages of the program wait.
type box struct{ from, tag int }

// boxSize is how many messages of one rank and tag wait before their sender does.
const boxSize = 64

func newSession(w *World, v view) *session {
	s := &session{w: w, view: v, conns: map[net.Conn]bool{}, outs: map[way]*out{}, boxes: map[box]chan []byte{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func (s *session) life() *mirror.Life {
	l := &mirror.Life{Number: s.view.Life, Rank: s.view.Rank, Ctx: s.ctx}
	for _, p := range s.view.Ranks {
		l.Ranks = append(l.Ranks, mirror.Place{Node: p.Node, Rack: p.Rack})
	}
	return l
}

// end closes all connections.
func (s *session) end(cause error) {
	s.cancel(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.conns {
		c.Close()
	}
}

// fence waits until nothing of the life is being read any more.
func (s *session) fence() {
	s.end(mirror.ErrFailed)
	s.wg.Wait()
}

// begin adds a connection that is read, unless the life has ended.
func (s *session) begin(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[c] = true
	s.wg.Add(1)
	return true
}

func (s *session) done(c net.Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.wg.Done()
}

// send sends a frame to another member.
func (s *session) send(ctx context.Context, to int, kind uint8, f frame, parts ...[]byte) error {
	if to < 0 || to >= len(s.view.Ranks) || to == s.view.Rank {
		return fmt.Errorf("tcpworld: rank %d of %d cannot send to rank %d", s.view.Rank, len(s.view.Ranks), to)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	o := s.outs[way{to, kind}]
	if o == nil {
		o = new(out)
		s.outs[way{to, kind}] = o
	}
	s.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	err := s.dial(o, to, kind)
	if err == nil {
		bufs := append(net.Buffers{f.encode()}, parts...)
		_, err = bufs.WriteTo(o.c)
	}
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return fmt.Errorf("tcpworld: to rank %d on node %s: %w", to, s.view.Ranks[to].Node, err)
}

// dial makes the connection of a way. Caller holds o.mu.
func (s *session) dial(o *out, to int, kind uint8) error {
	if o.c != nil {
		return nil
	}
	c, err := new(net.Dialer).DialContext(s.ctx, "tcp", s.view.Ranks[to].Addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		c.Close()
		return mirror.ErrFailed
	}
	s.conns[c] = true
	s.mu.Unlock()
	if err = greet(c, s.w.o.Secret, true); err == nil {
		_, err = c.Write(line{s.view.Life, uint32(s.view.Rank), kind}.encode())
	}
	if err != nil {
		c.Close()
		return err
	}
	o.c = c
	return nil
}

// blocks reads blocks for the sink.
func (s *session) blocks(c net.Conn, from int) {
	var head []byte
	for {
		f, err := readFrame(c, blockLine)
		if err != nil {
			return
		}
		if cap(head) < int(f.first) {
			head = make([]byte, f.first)
		}
		head = head[:f.first]
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		room, arrived := s.w.sink(s.view.Life, from, head, int(f.body))
		if len(room) == int(f.body) {
			_, err = io.ReadFull(c, room)
		} else {
			_, err = io.CopyN(io.Discard, c, int64(f.body))
		}
		if err != nil {
			return
		}
		arrived()
	}
}

// messages reads messages of the program.
func (s *session) messages(c net.Conn, from int) {
	for {
		f, err := readFrame(c, messageLine)
		if err != nil {
			return
		}
		b, err := io.ReadAll(io.LimitReader(c, int64(f.body)))
		if err != nil || len(b) < int(f.body) {
			return
		}
		select {
		case s.box(from, int(f.first)) <- b:
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *session) box(from, tag int) chan []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[box{from, tag}]
	if b == nil {
		b = make(chan []byte, boxSize)
		s.boxes[box{from, tag}] = b
	}
	return b
}

// Send sends a message to another rank of the present life: for programs that have no message layer of their own. The memory may be used again when it
// returns. Messages with one tag arrive in order. A tag is 0 or greater.
//
// Errors: mirror.ErrFailed when the life has ended; no such rank, or this one; more than 1 GiB.
func (w *World) Send(ctx context.Context, to, tag int, b []byte) error {
	s, err := w.present()
	if err != nil {
		return err
	}
	if len(b) > mostBody || tag < 0 || int64(tag) > 1<<32-1 {
		return fmt.Errorf("tcpworld: a message of %d bytes with tag %d", len(b), tag)
	}
	return s.send(ctx, to, messageLine, frame{uint32(tag), uint32(len(b))}, b)
}

// Recv waits for the next message of a rank with a tag. The memory is the caller's.
//
// Errors: mirror.ErrFailed when the life has ended; the error of ctx; no such rank.
func (w *World) Recv(ctx context.Context, from, tag int) ([]byte, error) {
	s, err := w.present()
	if err != nil {
		return nil, err
	}
	if from < 0 || from >= len(s.view.Ranks) || from == s.view.Rank {
		return nil, fmt.Errorf("tcpworld: rank %d of %d cannot receive from rank %d", s.view.Rank, len(s.view.Ranks), from)
	}
	select {
	case b := <-s.box(from, tag):
		return b, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// present is the session that was entered last.
func (w *World) present() (*session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.session; s != nil && s.view.Life == w.entered {
		return s, nil
	}
	if w.entered == 0 {
		return nil, errors.New("tcpworld: this process has no rank yet: call Send and Recv in the function of mirror.Run")
	}
	return nil, fmt.Errorf("tcpworld: life %d is over: %w", w.entered, mirror.ErrFailed)
}
