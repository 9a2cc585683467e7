package engine

import "sync/atomic"

// gateLock is the engine's lock, with the checkpoint gate as a bit of the same word. A caller
// enters by one compare-and-swap from zero, so a closed gate costs nothing to test for. The closer
// sets the bit, which keeps newcomers out, and then *acquires* the lock. When close returns, all
// callers that were inside have left, and the state under the lock is exact until open.
//
//	bit 0      held
//	bit 32     gate closed (or closing)
//	bits 33..  callers that wait, in units of lockWaiter
//
// Callers wait for the lock and for the gate in the same way. They are counted in the word, and
// sleep until they get the one token of retry. A holder that lets go and sees a waiter counted
// leaves a token. A waiter that takes the token tries again. Once it has got in, it leaves the
// next token when it goes. A token without a waiter causes one look in vain.
//
// A holder that lets go clears the held half of the word and then looks at the other half. A
// waiter changes the other half and then checks whether the lock is held. One of the two must see
// what the other did. A processor may load before its own store is seen, so both sides need a
// barrier: an atomic operation.
//
// Letting go is frequent. If no caller has waited for a while it has no barrier (loose). The first
// waiter that is about to sleep then makes every thread of the process execute a barrier (see
// order). From then on letting go has its own barrier again. TestLockModel goes through all
// interleavings.
type gateLock struct {
	word  atomic.Uint64
	loose atomic.Bool   // letting go has no barrier
	retry chan struct{} // capacity 1
	left  chan struct{} // capacity 1; for the closer: look again
}

const (
	lockHeld   = 1
	lockGate   = 1 << 32
	lockWaiter = 1 << 33

	lockTight = 1<<32 - 1 // where the upper half is asked for: the lock is held
)

func (l *gateLock) init() {
	l.retry = make(chan struct{}, 1)
	l.left = make(chan struct{}, 1)
}

func (l *gateLock) lock() {
	if !l.enter() {
		l.lockSlow()
	}
}

// enter takes the lock if no caller is inside or waits, and the gate is open. If it reports
// false, the caller goes on with lockSlow.
func (l *gateLock) enter() bool { return l.word.CompareAndSwap(0, lockHeld) }

// lockSlow is lock for a caller that did not get in at once. It does not look again before it sleeps. 60
// looks gained nothing: round trips of 2 goroutines of one rank took .92 of the time without them, of 4
// goroutines .98 (EPYC, 2 CPUs in use by others, median of 20 alternations).
func (l *gateLock) lockSlow() {
	l.word.Add(lockWaiter)
	announced := false
	for {
		w := l.word.Load()
		if w&(lockHeld|lockGate) == 0 {
			if l.word.CompareAndSwap(w, w-lockWaiter+lockHeld) {
				return
			}
			continue
		}
		if !announced { // and look once more
			announced = true
			l.tighten()
			continue
		}
		<-l.retry
	}
}

// tryLock takes the lock if it is free and the gate open.
func (l *gateLock) tryLock() bool {
	for {
		w := l.word.Load()
		if w&(lockHeld|lockGate) != 0 {
			return false
		}
		if l.word.CompareAndSwap(w, w|lockHeld) {
			return true
		}
	}
}

func (l *gateLock) unlock() {
	if left := l.drop(); left != 0 {
		l.pass(left)
	}
}

// drop lets go of the lock if that needs no barrier. A result other than zero must go to pass at
// once.
func (l *gateLock) drop() uint32 {
	if canSettle && l.loose.Load() {
		return letGo(&l.word)
	}
	return lockTight
}

// pass ends what drop has begun: it lets go of the lock with a barrier if drop has not, and wakes
// a waiter.
//
//go:noinline
func (l *gateLock) pass(left uint32) {
	if left != lockTight || l.word.Add(^uint64(lockHeld-1)) != 0 {
		l.notify()
	}
}

// notify passes a free lock on, to the closer first. It looks by an atomic operation: the plain
// store that has let go must be seen before the token, which may be there already.
//
//go:noinline
func (l *gateLock) notify() {
	if w := l.word.Add(0); w&lockGate != 0 {
		token(l.left)
	} else if w >= lockWaiter {
		token(l.retry)
	}
}

// contended reports to the holder whether a caller wants to get in.
func (l *gateLock) contended() bool { return l.word.Load() != lockHeld }

// loosen leaves out the barrier from now on, if possible. The holder calls it now and then. Callers
// that wait already have been seen by then.
func (l *gateLock) loosen() {
	if canSettle && !l.loose.Load() && order.ready() {
		l.loose.Store(true)
	}
}

// tighten puts the barrier back. When it returns, it is seen that earlier holders have let go, and
// later holders see what the caller did before. Another waiter that calls tighten meanwhile does
// not wait for that. It may be asleep when the lock is seen to be free. So the caller passes the
// lock on, as it may not get in itself.
func (l *gateLock) tighten() {
	if canSettle && l.loose.Swap(false) {
		order.settle()
		if l.word.Load()&lockHeld == 0 {
			l.notify()
		}
	}
}

// gate reports whether the gate is closed or about to be.
func (l *gateLock) gate() bool { return Checkpointing && l.word.Load()&lockGate != 0 }

// close closes the gate and returns when no caller is inside. The lock belongs to the closer
// until open. There is one closer at a time.
func (l *gateLock) close() {
	l.word.Or(lockGate)
	l.tighten()
	for {
		w := l.word.Load()
		if w&lockHeld == 0 {
			if l.word.CompareAndSwap(w, w|lockHeld) {
				return
			}
			continue
		}
		<-l.left
	}
}

// open gives the lock back and lets callers in again. Only the closer calls it, once.
func (l *gateLock) open() {
	if l.word.Load()&(lockHeld|lockGate) != lockHeld|lockGate {
		panic("engine: a gate is opened that is not closed")
	}
	if l.word.Add(^uint64(lockHeld+lockGate-1)) != 0 {
		l.notify()
	}
}

// token leaves one token in a channel of capacity 1.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
