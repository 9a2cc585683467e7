// Package trace is ptrace(2) as captures and restores need it.
//
//	Threads      the OS threads on which all tracing is done
//	Standstill   a process all of whose threads are stopped
//	Injector     makes a stopped thread execute system calls
//	Scratch      memory of the program that is borrowed for their results
//	Memory       the address space of a process
//	Place        namespaces in which restored processes have the ids that they had
//
// Who works on a process picks a Thread of Threads and does all on that. The functions
// that take the number of a thread, and the methods of Standstill and Injector, are to
// be called there.
//
// Everything traced ends with this process. A stopped process can be killed at any
// moment: errors then are whole.ErrDied, or whatever the kernel says of a thread that is
// gone.
package trace

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Threads owns the OS threads on which all tracing is done; an agent has one.
//
// The kernel takes a trace request only from the very thread that has attached,
// ends the tracing (and with PTRACE_O_EXITKILL the process) when that thread
// ends, and counts it as the parent for a parent-death signal. The threads
// live until Close.
type Threads struct {
	threads []*Thread
	places  places
	quit    chan struct{}
	close   sync.Once
	ended   sync.WaitGroup
}

// ErrBusy: a thread could not be brought to stand at a place from which it could go on
// elsewhere. Another attempt may succeed.
var ErrBusy = errors.New("a thread could not be stopped")

// ErrClosed says that the threads have ended.
var ErrClosed = errors.New("the tracer was closed")

// Thread is one locked OS thread; it runs one function at a time.
type Thread struct {
	work chan func()
	quit chan struct{} // closed by Threads.Close
	load atomic.Int32  // functions running and waiting
}

// NewThreads starts the threads, at least one, for work on as many processes at the
// same time.
func NewThreads(threads int) *Threads {
	t := &Threads{quit: make(chan struct{})}
	for range max(threads, 1) {
		th := &Thread{work: make(chan func()), quit: t.quit}
		t.threads = append(t.threads, th)
		t.ended.Add(1)
		go th.run(&t.ended)
	}
	return t
}

// run never unlocks the thread: it ends with the goroutine.
func (th *Thread) run(ended *sync.WaitGroup) {
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

// Do runs f on the thread and waits for it; after Close it does nothing and
// returns false. Not to be called on the thread.
func (th *Thread) Do(f func()) bool {
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

// Pick gives the thread with the least to do.
func (t *Threads) Pick() *Thread {
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
func (t *Threads) Do(f func()) { t.Pick().Do(f) }

// Close ends the threads, and with them every process that is traced or was
// started by Do with a parent-death signal. Nothing else of the tracer may be
// in use.
func (t *Threads) Close() {
	t.close.Do(func() {
		t.places.close()
		close(t.quit)
	})
	t.ended.Wait()
}

// fineSleep lets the calling thread's sleeps end within a microsecond of their time.
func fineSleep() { unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) }
