package native

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// pool owns the OS threads on which all tracing is done; an agent has one.
//
// The kernel takes a trace request only from the very thread that has attached,
// ends the tracing (and with PTRACE_O_EXITKILL the process) when that thread
// ends, and counts it as the parent for a parent-death signal. The threads of a
// pool live until Close.
type pool struct {
	threads []*traceThread
	quit    chan struct{}
	close   sync.Once
	ended   sync.WaitGroup
}

// errClosed says that the threads have ended.
var errClosed = errors.New("the tracer was closed")

// traceThread is one locked OS thread; it runs one function at a time.
type traceThread struct {
	work chan func()
	quit chan struct{} // closed by pool.Close
	load atomic.Int32  // functions running and waiting
}

// newPool starts the threads, at least one, for work on as many processes at the
// same time.
func newPool(threads int) *pool {
	t := &pool{quit: make(chan struct{})}
	for range max(threads, 1) {
		th := &traceThread{work: make(chan func()), quit: t.quit}
		t.threads = append(t.threads, th)
		t.ended.Add(1)
		go th.run(&t.ended)
	}
	return t
}

// run never unlocks the thread: it ends with the goroutine.
func (th *traceThread) run(ended *sync.WaitGroup) {
	defer ended.Done()
	runtime.LockOSThread()
	fineSleep()
	for {
		select {
		case f := <-th.work:
			f()
		case <-th.quit:
			return
		}
	}
}

// do runs f on the thread and waits for it; after Close it does nothing and
// returns false. Not to be called on the thread.
func (th *traceThread) do(f func()) bool {
	th.load.Add(1)
	defer th.load.Add(-1)
	done := make(chan struct{})
	select {
	case th.work <- func() { defer close(done); f() }:
		<-done
		return true
	case <-th.quit:
		return false
	}
}

// pick gives the thread with the least to do.
func (t *pool) pick() *traceThread {
	best := t.threads[0]
	for _, th := range t.threads[1:] {
		if th.load.Load() < best.load.Load() {
			best = th
		}
	}
	return best
}

// Do runs f on one of the threads and waits. An agent starts its ranks there:
// their parent-death signal comes when the thread that started them ends.
func (t *pool) Do(f func()) { t.pick().do(f) }

// Close ends the threads, and with them every process that is traced or was
// started by Do with a parent-death signal. Nothing else of the tracer may be
// in use.
func (t *pool) Close() {
	t.close.Do(func() { close(t.quit) })
	t.ended.Wait()
}

// fineSleep lets the calling thread's sleeps end within a microsecond of their time.
func fineSleep() { unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) }
