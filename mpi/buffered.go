package mpi

import (
	"errors"
	"sync"

	"github.com/gorun-mpi/gorun/internal/engine"
)

// buffered are the copies that Bsend and its like have made and that are not yet sent.
type buffered struct {
	mu  sync.Mutex
	all []pendingCopy
}

type pendingCopy struct {
	r engine.Request
	s *scratch
}

// add takes care of a copy until it is sent. It also gives back what was sent meanwhile, so there is never more than was
// under way at the last call.
func (b *buffered) add(e *engine.Engine, r engine.Request, s *scratch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, pendingCopy{r, s})
	b.reap(e)
}

// reap ends the sends that are over. A send that has failed is nobody's any more: its peer has failed or its
// communicator was given up.
func (b *buffered) reap(e *engine.Engine) {
	left := b.all[:0]
	for _, p := range b.all {
		if _, done, err := e.Test(p.r); done || err != nil && !errors.Is(err, ErrAborted) {
			p.s.giveBack()
		} else {
			e.Leave(p.r)
			left = append(left, p)
		}
	}
	clear(b.all[len(left):])
	b.all = left
}

// flush waits until all copies are sent. Errors: ErrAborted.
func (b *buffered) flush(e *engine.Engine) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.all) > 0 {
		if _, err := e.Wait(b.all[0].r, nil); errors.Is(err, ErrAborted) {
			return err
		}
		b.all[0].s.giveBack()
		b.all = b.all[1:]
	}
	b.all = nil
	return nil
}
