package engine

import (
	"context"
	"fmt"
	"sync/atomic"
)

// View lets a context end waits. A view costs one context.AfterFunc, and each call made with it one
// load. A nil *View never ends a wait.
type View struct {
	e     *Engine
	ctx   context.Context
	fired atomic.Bool
	stop  func() bool
	first *waiter // of those that wait with this view, in no order
}

// NewView makes a view of the engine. Once ctx is done, its waits fail with ErrDeadline, which wraps
// the context's cause.
func NewView(ctx context.Context, e *Engine) *View {
	v := &View{e: e, ctx: ctx}
	if ctx.Err() != nil {
		v.fired.Store(true)
	} else if ctx.Done() != nil {
		v.stop = context.AfterFunc(ctx, v.fire)
	}
	return v
}

// Stop releases what the view holds. The context no longer ends waits begun with it.
func (v *View) Stop() {
	if v != nil && v.stop != nil {
		v.stop()
	}
}

// Close is Stop.
func (v *View) Close() error {
	v.Stop()
	return nil
}

// done reports whether waits of this view are to end.
func (v *View) done() bool { return v != nil && v.fired.Load() }

// Err returns why waits of this view end, nil while they do not.
func (v *View) Err() error {
	if !v.done() {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDeadline, context.Cause(v.ctx))
}

func (v *View) fire() {
	v.fired.Store(true)
	v.e.mu.lock()
	for w := v.first; w != nil; w = w.siblings.next {
		v.e.rouse(w)
	}
	v.e.mu.unlock()
}

// join adds a caller that waits.
func (v *View) join(w *waiter) {
	if v == nil {
		return
	}
	if w.siblings.next = v.first; v.first != nil {
		v.first.siblings.prev = w
	}
	v.first = w
}

// part takes it out.
func (v *View) part(w *waiter) {
	if v == nil {
		return
	}
	if w.siblings.prev != nil {
		w.siblings.prev.siblings.next = w.siblings.next
	} else {
		v.first = w.siblings.next
	}
	if w.siblings.next != nil {
		w.siblings.next.siblings.prev = w.siblings.prev
	}
	w.siblings = waiterLink{}
}
