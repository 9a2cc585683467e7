package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// Client asks one server. It may be used by any number of goroutines.
type Client struct {
	send    func([]byte) error
	silence time.Duration

	mu     sync.Mutex
	next   uint32
	calls  map[uint32]*call
	gone   error         // why there is no server any more
	credit int           // bytes that may still be asked for
	room   chan struct{} // closed and replaced when there is more credit, or none ever again
}

// call is a request under way: until it is answered, even if its caller does not wait any more.
type call struct {
	op     op
	n      int  // bytes asked for by a read
	given  bool // up
	answer chan frame
	alive  chan struct{}
}

// NewClient returns a client. send sends a frame, which is its own from then on, and may block.
func NewClient(send func([]byte) error) *Client {
	return &Client{send: send, silence: Silence, calls: map[uint32]*call{}, credit: Window, room: make(chan struct{})}
}

// Close ends the client: the stream has, and why tells for what reason.
func (c *Client) Close(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return
	}
	if why == nil {
		why = io.EOF
	}
	c.gone = fmt.Errorf("%w: %w", store.ErrUnreachable, why)
	for id, call := range c.calls {
		close(call.answer)
		delete(c.calls, id)
	}
	close(c.room)
	c.room = make(chan struct{})
}

// Handle takes a frame of the server. It does not block. It keeps the frame. The error is ErrFrame.
func (c *Client) Handle(p []byte) error {
	f, err := parse(p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[f.id]
	switch {
	case f.status == isRequest, call != nil && call.op != f.op, call != nil && f.status == isDone && f.op == opRead && len(f.body) > call.n:
		return fmt.Errorf("%w: answer of op %d, status %d, %d bytes", ErrFrame, f.op, f.status, len(f.body))
	case call == nil:
		return fmt.Errorf("%w: answer to request %d, which was not asked", ErrFrame, f.id)
	case f.status == isAlive:
		select {
		case call.alive <- struct{}{}:
		default:
		}
		return nil
	}
	delete(c.calls, f.id)
	c.more(call.n)
	if call.given {
		c.dispose(f)
	} else {
		call.answer <- f
	}
	return nil
}

// more gives back credit. The client is locked.
func (c *Client) more(n int) {
	c.credit += n
	close(c.room)
	c.room = make(chan struct{})
}

// dispose closes a piece that was opened too late for its caller. It does not block.
func (c *Client) dispose(f frame) {
	if f.op == opOpen && f.status == isDone && len(f.body) >= 4 {
		go c.send((&request{op: opClose, handle: le.Uint32(f.body)}).encode())
	}
}

// giveUp leaves a request to itself.
func (c *Client) giveUp(a *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.given = true
	select {
	case f, ok := <-a.answer:
		if ok {
			c.dispose(f)
		}
	default:
	}
}

// begin sends a request. It waits until there is credit for what it asks for, or with try returns
// nil. Nothing is sent for a caller that has given up.
func (c *Client) begin(ctx context.Context, r *request, try bool) (*call, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for {
		c.mu.Lock()
		if c.gone != nil {
			defer c.mu.Unlock()
			return nil, c.gone
		}
		if c.credit >= int(r.n) && len(c.calls) < maxPending {
			break
		}
		room := c.room
		c.mu.Unlock()
		if try {
			return nil, nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.credit -= int(r.n)
	c.next++
	r.id = c.next
	a := &call{op: r.op, n: int(r.n), answer: make(chan frame, 1), alive: make(chan struct{}, 1)}
	c.calls[r.id] = a
	c.mu.Unlock()
	if err := c.send(r.encode()); err != nil {
		c.Close(err)
		return nil, fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	return a, nil
}

// wait waits for the answer to a request.
func (c *Client) wait(ctx context.Context, a *call) ([]byte, error) {
	t := time.NewTimer(c.silence)
	defer t.Stop()
	for {
		select {
		case f, ok := <-a.answer:
			switch {
			case !ok:
				c.mu.Lock()
				defer c.mu.Unlock()
				return nil, c.gone
			case f.status >= isError:
				return nil, errorOf(f)
			}
			return f.body, nil
		case <-a.alive:
			t.Reset(c.silence)
		case <-t.C:
			c.Close(fmt.Errorf("no word for %v", c.silence))
		case <-ctx.Done():
			c.giveUp(a)
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Client) do(ctx context.Context, r *request) ([]byte, error) {
	a, err := c.begin(ctx, r, false)
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, a)
}

// decoded asks for something that comes as JSON.
func (c *Client) decoded(ctx context.Context, r *request, v any) error {
	if err := r.check(); err != nil {
		return err
	}
	p, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(p, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// Store is a store of the server, by the name that it has there.
func (c *Client) Store(name string) *Far { return &Far{c, name} }

// Far is a store of a server. It is a Served.
type Far struct {
	c    *Client
	name string
}

var _ Served = (*Far)(nil)

// Open opens a piece. Bytes come when they are read; no more are read ahead than a ReadAt asks for.
func (f *Far) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	r := &request{op: opOpen, store: f.name, set: set, piece: piece}
	if err := r.check(); err != nil {
		return nil, err
	}
	p, err := f.c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	d := decoder{p: p}
	handle, size := d.u32(), d.u64()
	if d.bad || len(d.p) > 0 || size > 1<<62 {
		return nil, fmt.Errorf("%w: answer to open", ErrFrame)
	}
	return &reader{c: f.c, ctx: ctx, handle: handle, size: int64(size)}, nil
}

// Stat tells the size of a piece.
func (f *Far) Stat(ctx context.Context, set, piece string) (info store.Info, err error) {
	err = f.c.decoded(ctx, &request{op: opStat, store: f.name, set: set, piece: piece}, &info)
	if err == nil && (info.Name != piece || info.Size < 0) {
		err = fmt.Errorf("%w: stat of %.80q", ErrFrame, info.Name)
	}
	return info, err
}

// List lists a set.
func (f *Far) List(ctx context.Context, set string) (all []store.Info, err error) {
	err = f.c.decoded(ctx, &request{op: opList, store: f.name, set: set}, &all)
	for _, info := range all {
		if store.CheckPiece(info.Name) != nil || info.Size < 0 {
			return nil, fmt.Errorf("%w: list with %.80q", ErrFrame, info.Name)
		}
	}
	return all, err
}

// Sets lists sets.
func (f *Far) Sets(ctx context.Context, prefix string) (all []string, err error) {
	err = f.c.decoded(ctx, &request{op: opSets, store: f.name, set: prefix}, &all)
	for _, set := range all {
		if store.CheckSet(set) != nil || len(set) <= len(prefix) || set[:len(prefix)+1] != prefix+"/" {
			return nil, fmt.Errorf("%w: sets with %.80q", ErrFrame, set)
		}
	}
	return all, err
}

// Remove removes a set there.
func (f *Far) Remove(ctx context.Context, set string) error {
	var none struct{}
	return f.c.decoded(ctx, &request{op: opRemove, store: f.name, set: set}, &none)
}

// Check checks an image there.
func (f *Far) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	var c Checked
	err := f.c.decoded(ctx, &request{op: opCheck, store: f.name, set: set, piece: piece, whole: whole}, &c)
	return c.Size, c.Digest, c.Meta, err
}

// reader is a piece open at the server.
type reader struct {
	c      *Client
	ctx    context.Context
	handle uint32
	size   int64
	once   sync.Once
}

func (r *reader) Size() int64 { return r.size }

// ahead is how many reads a ReadAt has under way, so that two of them share the window.
const ahead = Window / MaxRead / 2

// part is a read under way.
type part struct {
	a *call
	p []byte // where its bytes go
}

// take waits for the bytes.
func (u *part) take(r *reader) (int, error) {
	got, err := r.c.wait(r.ctx, u.a)
	if err == nil && len(got) < len(u.p) {
		err = fmt.Errorf("%w: %d bytes instead of %d", io.ErrUnexpectedEOF, len(got), len(u.p))
	}
	if err != nil {
		return 0, err
	}
	return copy(u.p, got), nil
}

// ReadAt has several reads under way.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("a negative offset")
	}
	short := off+int64(len(p)) > r.size
	if short {
		p = p[:max(0, r.size-off)]
	}
	var under []part
	for next := 0; err == nil && (next < len(p) || len(under) > 0); {
		if k := min(len(p)-next, MaxRead); k > 0 && len(under) < ahead {
			q := &request{op: opRead, handle: r.handle, off: uint64(off) + uint64(next), n: uint32(k)}
			var a *call
			if a, err = r.c.begin(r.ctx, q, len(under) > 0); err != nil {
				break
			}
			if a != nil {
				under = append(under, part{a, p[next : next+k]})
				next += k
				continue
			}
		}
		var got int
		got, err = under[0].take(r)
		n += got
		under = under[1:]
	}
	for _, u := range under {
		r.c.giveUp(u.a)
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Close tells the server, and does not wait.
func (r *reader) Close() error {
	r.once.Do(func() { r.c.send((&request{op: opClose, handle: r.handle}).encode()) })
	return nil
}
