package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// World is the ranks that keep each other's state, as one process sees them. It outlives failures: what descriptions hold
// stays with it until Close.
type World struct {
	t     Transport
	quit  chan struct{}
	ended sync.WaitGroup
	once  sync.Once // of Close

	mu     sync.Mutex
	life   *Life
	ctx    context.Context
	broken context.CancelCauseFunc
	keeps  map[string]*keep
	later  []letter // of a life that this process has not entered yet
	calls  map[uint64]*call
	called uint64

	post   sync.Mutex
	letter []letter
	posted chan struct{} // holds a token when there are letters
}

// letter is a message of the protocol on its way.
type letter struct {
	life uint32
	peer int
	head *head
}

// New makes a world of what connects its ranks. It owns t from now on.
func New(t Transport) *World {
	w := &World{t: t, quit: make(chan struct{}), keeps: map[string]*keep{}, calls: map[uint64]*call{}, posted: make(chan struct{}, 1)}
	t.Serve(w.sink)
	w.ended.Go(w.courier)
	return w
}

// Join waits until this process has a rank in the next life of the world, and enters it: a spare waits until it is needed. The
// context that it returns ends with that life. Run calls it; only programs without Run do so themselves.
//
// It returns ErrOver if the world has ended without a need for this process, and the error of ctx.
func (w *World) Join(ctx context.Context) (context.Context, error) {
	w.mu.Lock()
	after := uint32(0)
	if w.life != nil {
		after = w.life.Number
	}
	w.mu.Unlock()
	life, err := w.t.Join(ctx, after)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	if w.broken != nil {
		w.broken(ErrFailed)
	}
	w.life = life
	w.ctx, w.broken = context.WithCancelCause(life.Ctx)
	lctx := w.ctx
	later := w.later
	w.later = nil
	w.mu.Unlock()
	for _, l := range later {
		w.deliver(l)
	}
	return lctx, nil
}

// Leave says how this rank's part of the present life has ended, and waits until all ranks have. It returns nil if all have ended well, so that the
// world is over; an error that wraps ErrFailed if there is another life to Join; else the error that has ended the world. Run calls it; only
// programs without Run do so themselves.
func (w *World) Leave(ctx context.Context, result error) error {
	life := w.now()
	if life == nil {
		return errors.New("mirror: Leave: this process is in no life of the world")
	}
	return w.t.Leave(ctx, life.Number, result)
}

// Rank is this process's rank in the present life, -1 before the first.
func (w *World) Rank() int {
	if life := w.now(); life != nil {
		return life.Rank
	}
	return -1
}

// Size is the number of ranks, 0 before the first life.
func (w *World) Size() int {
	if life := w.now(); life != nil {
		return len(life.Ranks)
	}
	return 0
}

// Life is the number of the present life, 0 before the first.
func (w *World) Life() int {
	if life := w.now(); life != nil {
		return int(life.Number)
	}
	return 0
}

func (w *World) now() *Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}

// context is that of the present life.
func (w *World) context() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ctx
}

// contextOf is that of a life, nil if it is not the present one.
func (w *World) contextOf(life uint32) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil || w.life.Number != life {
		return nil
	}
	return w.ctx
}

// over returns why the present life has ended, nil if it goes on.
func (w *World) over() error {
	ctx := w.context()
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// Close gives the world up, and the memory of all its descriptions. Files of targets stay: Remove removes them. A second Close does
// nothing.
func (w *World) Close() (err error) {
	w.once.Do(func() { err = w.close() })
	return err
}

func (w *World) close() error {
	w.mu.Lock()
	if w.broken == nil {
		w.ctx, w.broken = context.WithCancelCause(context.Background())
	}
	w.broken(ErrOver)
	keeps := w.keeps
	w.keeps = map[string]*keep{}
	w.mu.Unlock()
	err := w.t.Close()
	close(w.quit)
	w.ended.Wait()
	for _, k := range keeps {
		k.close()
	}
	return err
}

// keep returns the description of a name, made on first use: a message may come before the program opens it.
func (w *World) keep(name string) *keep {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keeps[name]
	if k == nil {
		k = &keep{w: w, name: name, changed: make(chan struct{})}
		w.keeps[name] = k
	}
	return k
}

// send puts a message into the post. It never waits.
func (w *World) send(life uint32, to int, h *head) {
	w.post.Lock()
	w.letter = append(w.letter, letter{life, to, h})
	w.post.Unlock()
	select {
	case w.posted <- struct{}{}:
	default:
	}
}

// courier sends what is in the post.
func (w *World) courier() {
	for {
		select {
		case <-w.posted:
		case <-w.quit:
			return
		}
		w.post.Lock()
		letters := w.letter
		w.letter = nil
		w.post.Unlock()
		for _, l := range letters {
			w.carry(l)
		}
	}
}

func (w *World) carry(l letter) {
	w.mu.Lock() // all of one life: with the context of the next, a letter to a lost member would hold up all that come after it
	life, ctx, broken := w.life, w.ctx, w.broken
	w.mu.Unlock()
	if life.Number != l.life {
		return
	}
	if l.peer == life.Rank {
		w.deliver(l)
		return
	}
	if err := w.t.Put(ctx, l.life, l.peer, l.head.encode(), nil); err != nil && ctx.Err() == nil {
		broken(fmt.Errorf("rank %d does not reach rank %d: %w", life.Rank, l.peer, err))
	}
}

// deliver hands a message to its description.
func (w *World) deliver(l letter) {
	w.mu.Lock()
	if w.life == nil || l.life > w.life.Number {
		w.later = append(w.later, l)
		w.mu.Unlock()
		return
	}
	current := l.life == w.life.Number
	w.mu.Unlock()
	if current {
		w.keep(l.head.To).receive(l)
	}
}

// sink takes the blocks of a transport.
func (w *World) sink(life uint32, from int, b []byte, size int) ([]byte, func()) {
	h, err := decode(b, size)
	if err != nil {
		return nil, func() {} // of no program of ours
	}
	if h.Is == isMsg {
		return nil, func() { w.deliver(letter{life, from, h}) }
	}
	if now := w.now(); now == nil || now.Number != life {
		return nil, func() {}
	}
	switch h.Is {
	case isPart:
		return w.keep(h.To).part(life, h)
	case isSame:
		return nil, func() { w.keep(h.To).same(life, h) }
	case isWant:
		return nil, func() { w.keep(h.To).asked(life, from, h) }
	case isPiece:
		if c := w.call(h.Call); c != nil {
			return c.block(h)
		}
	case isEnd:
		if c := w.call(h.Call); c != nil {
			return nil, func() { c.end(h) }
		}
	}
	return nil, func() {}
}

func (w *World) call(n uint64) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[n]
}

// Run calls f in each life of the world in which this process has a rank, until all ranks have returned nil from the same
// one. When ranks are lost, the context that f was given ends, with a cause that wraps ErrFailed. f then returns, and is called again, in the same process and
// with a spare in each lost place. It calls Restore, and goes on from there:
//
//	err := mirror.Run(world, func(ctx context.Context) error {
//		d, err := mirror.Open(world, "state", mirror.Options{Policy: mirror.Ring(1)})
//		...
//		defer d.Close()
//		d.Region("step", &step)
//		d.Region("x", &x)
//		if _, err := d.Restore(ctx); err != nil {
//			return err
//		}
//		for ; step < steps; step++ { ... }
//		return nil
//	})
//
// On a spare f is called when the spare is needed. Run returns nil there if it never was. If f returns an error and no rank
// is found to be lost, the world ends: Run returns the error on all ranks, with the rank that had it.
//
// Over mpiworld there are no spares, since ranks of one job end together: Run returns the error, the job ends, and goes on in a
// new life of the job if gorun was told so (-restarts). What was kept in memory is gone then; files are not.
func Run(world *World, f func(ctx context.Context) error) error {
	for {
		ctx, err := world.Join(context.Background())
		if errors.Is(err, ErrOver) {
			return nil
		}
		if err != nil {
			return err
		}
		err = f(ctx)
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrFailed) {
			continue
		}
		err = world.Leave(context.Background(), err)
		if !errors.Is(err, ErrFailed) {
			return err
		}
	}
}
