package engine

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Callers, a closer of the gate and one that only tries meet at a lock whose holders let go without
// a barrier. Nobody is inside together with another, nobody is forgotten asleep, and nobody is
// inside while the gate is closed.
func TestLooseLock(t *testing.T) {
	for canSettle && !order.ready() {
		if order.asked.Load() && announceBarriers() != 0 {
			t.Skip("the system puts no barriers")
		}
		runtime.Gosched()
	}
	const callers, rounds = 4, 30_000
	var l gateLock
	l.init()
	inside := 0 // the race detector and the sum tell
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for k := range rounds {
				l.lock()
				inside++
				if k%32 == 0 {
					l.loosen()
				}
				if k%512 == 0 {
					runtime.Gosched() // so that others come to sleep
				}
				l.unlock()
			}
		})
	}
	tried := 0
	wg.Go(func() {
		for range rounds {
			if l.tryLock() {
				tried++
				inside++
				l.unlock()
			}
			runtime.Gosched()
		}
	})
	wg.Go(func() {
		for range rounds / 100 {
			l.close()
			was := inside
			runtime.Gosched()
			if inside != was {
				t.Error("somebody was inside while the gate was closed")
			}
			l.open()
			runtime.Gosched()
		}
	})
	wg.Wait()
	if inside != callers*rounds+tried || l.word.Load() != 0 {
		t.Errorf("%d times inside, %d counted; the lock is %#x", callers*rounds+tried, inside, l.word.Load())
	}
}

// A gate is opened once: what a second time does to the lock nobody would find out.
func TestOpenedTwice(t *testing.T) {
	var l gateLock
	l.init()
	l.close()
	l.open()
	for _, held := range []bool{false, true} {
		if held {
			l.lock()
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("held %v: opened twice", held)
				}
			}()
			l.open()
		}()
	}
	l.unlock()
	if l.word.Load() != 0 {
		t.Errorf("the lock is %#x", l.word.Load())
	}
}

// Where the system refuses, from the beginning or later, barriers stay in their
// places.
func TestRefusedBarriers(t *testing.T) {
	var o ordering
	o.asked.Store(true)
	if o.ready() {
		t.Error("ready without the system's consent")
	}
	was := barrierCall
	defer func() { barrierCall = was }()
	for _, err := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		barrierCall = func() syscall.Errno { return err }
		o.can.Store(true)
		o.asked.Store(true)
		o.settle()
		if o.can.Load() || o.asked.Load() == (err == syscall.EPERM) {
			t.Errorf("after %v: can %v, asked %v", err, o.can.Load(), o.asked.Load())
		}
	}
}
