package mpi

import (
	"errors"
	"sync"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// buffered are the copies that Bsend and its like have made and that are not yet sent. Nobody calls the engine with the lock
// held: copies that are looked at are taken out, so an operator of the program may call Bsend while Finalize waits.
type buffered struct {
	mu   sync.Mutex
	all  []pendingCopy
	left int       // how many were not yet sent when they were looked at last
	busy int       // goroutines that have taken some
	idle sync.Cond // one has put back what is left
}

type pendingCopy struct {
	r engine.Request
	s *scratch
}

// add takes care of a copy until it is sent. Now and then it gives back what was sent meanwhile: once there are twice as many copies
// as were left the last time, so that a copy costs the same however many there are.
func (b *buffered) add(e *engine.Engine, r engine.Request, s *scratch) {
	all := b.due(pendingCopy{r, s})
	if len(all) > 0 {
		b.put(reap(e, all))
	}
}

// due adds a copy, and takes all out if they are to be looked at.
func (b *buffered) due(p pendingCopy) []pendingCopy {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, p)
	if len(b.all) <= 2*b.left {
		return nil
	}
	return b.taken()
}

func (b *buffered) take() []pendingCopy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken()
}

// taken is take for a caller that holds the lock.
func (b *buffered) taken() []pendingCopy {
	all := b.all
	b.all = nil
	b.busy++
	return all
}

func (b *buffered) put(left []pendingCopy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(left, b.all...)
	b.left = len(left)
	b.busy--
	b.idle.Broadcast()
}

// reap ends the sends that are over, and returns the others. A send that has failed is nobody's any more: its peer has
// failed or its communicator was given up.
func reap(e *engine.Engine, all []pendingCopy) []pendingCopy {
	left := all[:0]
	for _, p := range all {
		if _, done, err := e.Test(p.r); done || err != nil && !errors.Is(err, ErrAborted) {
			p.s.giveBack()
		} else {
			e.Leave(p.r)
			left = append(left, p)
		}
	}
	clear(all[len(left):])
	return left
}

// leave has the engine count no copy as a request of the program.
func (b *buffered) leave(e *engine.Engine) {
	all := b.take()
	for _, p := range all {
		e.Leave(p.r)
	}
	b.put(all)
}

// flush waits until all copies are sent, or cannot be, as the other rank is in Finalize, too. Errors: ErrAborted.
func (b *buffered) flush(e *engine.Engine) error {
	for !b.empty() {
		all := b.take()
		for i, p := range all {
			if _, err := e.Wait(p.r, nil); errors.Is(err, ErrAborted) {
				b.put(all[i:])
				return err
			}
			p.s.giveBack()
		}
		b.put(nil)
	}
	return nil
}

// empty reports whether no copies are left, once nobody looks at any.
func (b *buffered) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.idle.L = &b.mu; b.busy > 0; {
		b.idle.Wait()
	}
	return len(b.all) == 0
}
