package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// Served is what a server can be asked for. A store.Dir with Local is one; so is what a node sees of others.
type Served interface {
	store.Reading
	// Remove removes a set, see store.Store.
	Remove(ctx context.Context, set string) error
	// Check checks an image where it lies, see snapshot.Checker.
	Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error)
}

// Checked is the answer to a check.
type Checked struct {
	Size   int64      `json:"size"`
	Digest string     `json:"digest"`
	Meta   image.Meta `json:"meta"`
}

// Server answers one client.
type Server struct {
	find   func(name string) Served
	send   func([]byte) error
	ctx    context.Context
	cancel context.CancelFunc
	work   chan request
	done   sync.WaitGroup

	mu      sync.Mutex
	pending int
	handles map[uint32]*handle
	next    uint32
}

// handle is an open piece. It is closed when it is not read any more.
type handle struct {
	r      store.Reader
	users  int
	closed bool
}

// NewServer returns a server. find returns a store by the name that a client uses, nil if there is none. send
// sends a frame, which is its own from then on, and may block; if it fails the server goes on, as its owner will
// Close it.
func NewServer(find func(name string) Served, send func([]byte) error) *Server {
	s := &Server{find: find, send: send, work: make(chan request, maxPending), handles: map[uint32]*handle{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for range workers {
		s.done.Go(func() {
			for {
				select {
				case r := <-s.work:
					s.answer(&r)
				case <-s.ctx.Done():
					return
				}
			}
		})
	}
	return s
}

// Close gives up requests under way and closes open pieces. It waits for none of the stores.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.handles {
		s.drop(n)
	}
}

// Handle takes a frame of the client. It does not block and does not keep the frame. The error is ErrFrame.
func (s *Server) Handle(p []byte) error {
	f, err := parse(p)
	if err != nil {
		return err
	}
	r, err := parseRequest(f)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.op == opClose {
		if s.handles[r.handle] == nil {
			return fmt.Errorf("%w: handle %d is not open", ErrFrame, r.handle)
		}
		s.drop(r.handle)
		return nil
	}
	if s.pending == maxPending {
		return fmt.Errorf("%w: more than %d requests", ErrFrame, maxPending)
	}
	s.pending++
	s.work <- r // has room for all that are pending
	return nil
}

// drop closes a handle. The server is locked.
func (s *Server) drop(n uint32) {
	h := s.handles[n]
	delete(s.handles, n)
	h.closed = true
	if h.users == 0 {
		h.r.Close()
	}
}

// answer carries out a request and says from time to time that it is at it.
func (s *Server) answer(r *request) {
	over := make(chan struct{})
	var beat sync.WaitGroup
	beat.Go(func() {
		t := time.NewTicker(alive)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.send(seal(begin(r.op, isAlive, r.id, 0)))
			case <-over:
				return
			}
		}
	})
	p, err := s.do(r)
	close(over)
	beat.Wait()
	s.mu.Lock()
	s.pending--
	s.mu.Unlock()
	if err != nil {
		p = failed(r, err)
	}
	s.send(p)
}

func (s *Server) do(r *request) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.op == opRead {
		return s.read(r)
	}
	st := s.find(r.store)
	if st == nil {
		return nil, fmt.Errorf("store %.80q: %w", r.store, fs.ErrNotExist)
	}
	switch r.op {
	case opOpen:
		return s.open(st, r)
	case opStat:
		return encoded(r)(st.Stat(s.ctx, r.set, r.piece))
	case opList:
		return encoded(r)(anyOf(st.List(s.ctx, r.set)))
	case opSets:
		return encoded(r)(anyOf(st.Sets(s.ctx, r.set)))
	case opRemove:
		return encoded(r)(struct{}{}, st.Remove(s.ctx, r.set))
	default:
		var c Checked
		var err error
		c.Size, c.Digest, c.Meta, err = st.Check(s.ctx, r.set, r.piece, r.whole)
		return encoded(r)(c, err)
	}
}

func anyOf[T any](v T, err error) (any, error) { return v, err }

// encoded makes an answer of what a call has returned.
func encoded(r *request) func(v any, err error) ([]byte, error) {
	return func(v any, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(v)
		if err == nil && len(body) > maxAnswer {
			err = fmt.Errorf("an answer of %d bytes, at most %d: %.80q has too much in it", len(body), maxAnswer, r.set)
		}
		if err != nil {
			return nil, err
		}
		return seal(append(begin(r.op, isDone, r.id, len(body)), body...)), nil
	}
}

func (s *Server) open(st Served, r *request) ([]byte, error) {
	piece, err := st.Open(s.ctx, r.set, r.piece)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || len(s.handles) == maxHandles {
		piece.Close()
		return nil, fmt.Errorf("more than %d pieces are open", maxHandles)
	}
	s.next++
	s.handles[s.next] = &handle{r: piece}
	p := begin(opOpen, isDone, r.id, 12)
	return seal(le.AppendUint64(le.AppendUint32(p, s.next), uint64(piece.Size()))), nil
}

func (s *Server) read(r *request) ([]byte, error) {
	s.mu.Lock()
	h := s.handles[r.handle]
	if h == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("handle %d: %w", r.handle, fs.ErrClosed)
	}
	h.users++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.users--; h.users == 0 && h.closed {
			h.r.Close()
		}
	}()
	p := begin(opRead, isDone, r.id, int(r.n))[:headSize+int(r.n)]
	n, err := h.r.ReadAt(p[headSize:], int64(r.off))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return seal(p[:headSize+n]), nil
}
