package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// standstill is a process all of whose threads are stopped and traced by the
// calling traceThread, or on the way there or back.
type standstill struct {
	proc *process
	th   *traceThread
	tids []int // stopped threads, the leader first
	// stuck threads are attached and were asked to stop, but did not in time.
	stuck []int
	since time.Time // of the first request to stop
}

// stopAll stops every thread of the process, those that are born meanwhile
// included. After an error all of them run again.
// It runs on th.
func (st *standstill) stopAll() error {
	st.since = time.Now()
	if err := st.stopEach(); err != nil {
		st.release()
		return fmt.Errorf("stopping its threads: %w", err)
	}
	// The leader has the process's number.
	i := slices.Index(st.tids, st.proc.pid)
	if i < 0 {
		st.release()
		return errLeaderEnded
	}
	st.tids[0], st.tids[i] = st.tids[i], st.tids[0]
	return nil
}

// listThreads is threadsOf; a test replaces it.
var listThreads = proc.Threads

// stopEach stops threads until none is left that runs. Where a thread ends while
// the kernel lists them it passes others over: that a list holds no thread that runs
// proves nothing, but that the kernel counts as many as stand does.
func (st *standstill) stopEach() error {
	var b backoff
	for {
		tids, err := listThreads(st.proc.pid)
		if err != nil {
			return err
		}
		stood := len(st.tids)
		if err := st.stopThese(slices.DeleteFunc(tids, func(tid int) bool { return slices.Contains(st.tids, tid) })); err != nil {
			return err
		}
		count, err := proc.CountThreads(st.proc.pid)
		switch {
		case err != nil:
			return err
		case count == len(st.tids):
			return nil
		case stood < len(st.tids):
			continue
		case isZombie(st.proc.pid): // it counts, and stands never
			return errLeaderEnded // or the process has, which shows soon
		case !b.sleep(stopLimit):
			return fmt.Errorf("%w: of %d threads %d stand", ErrBusy, count, stood)
		}
	}
}

var errLeaderEnded = refusal.New("let the main thread live on", "its first thread has ended while others run")

// stopThese asks all of them to stop before it waits for the first.
func (st *standstill) stopThese(tids []int) error {
	var asked []int
	var failed error
	for _, tid := range tids {
		there, err := st.ask(tid)
		if there {
			asked = append(asked, tid)
		}
		if err != nil {
			failed = err
			break
		}
	}
	// The leader of a dying process is seen to end only after all others.
	slices.Sort(asked)
	slices.Reverse(asked)
	for _, tid := range asked {
		switch there, err := st.await(tid); {
		case err != nil:
			st.stuck = append(st.stuck, tid)
			failed = err
		case there:
			st.tids = append(st.tids, tid)
		}
	}
	return failed
}

// ask attaches to a thread and asks it to stop; false if it has ended.
func (st *standstill) ask(tid int) (bool, error) {
	if there, err := st.seize(tid); !there {
		return false, err
	}
	if err := interrupt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("stopping thread %d: %w", tid, err)
	}
	return true, nil
}

// errLettingGo says that a thread which would not stop in time, at an attempt before,
// is not let go yet.
var errLettingGo = fmt.Errorf("%w: it is still being let go", ErrBusy)

// seizeLimit bounds the time for which a thread may refuse to be attached to.
const seizeLimit = 20 * time.Millisecond

// seize attaches to a thread; false without an error if it has ended. That the
// kernel does not permit it may mean that the thread is ending, or is traced: when
// one looks it may be neither any more.
func (st *standstill) seize(tid int) (bool, error) {
	var b backoff
	for {
		err := seize(tid, traceOptions)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.ESRCH):
			return false, nil
		case !errors.Is(err, unix.EPERM):
			return false, fmt.Errorf("attaching to thread %d: %w", tid, err)
		}
		// By the process: the number may be that of another's thread by now.
		s, e := proc.Parsed(st.proc.pid, "task/"+strconv.Itoa(tid)+"/status", proc.ParseStatus)
		switch {
		case e != nil || s.Ended:
			return false, nil
		case s.Tracer != 0 && isOurThread(s.Tracer):
			return false, fmt.Errorf("%w: thread %d", errLettingGo, tid)
		case s.Tracer != 0:
			return false, refuseTracer(s.Tracer)
		case !b.sleep(seizeLimit):
			return false, fmt.Errorf("attaching to thread %d: %w", tid, err)
		}
	}
}

// isOurThread tells whether a thread is one of this process.
func isOurThread(tid int) bool {
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid))
	return err == nil
}

// await waits until a thread that was asked has stopped; false if it has ended.
func (st *standstill) await(tid int) (bool, error) {
	for {
		s, err := waitStop(tid, stopLimit)
		switch {
		case err != nil:
			return false, err
		case s.exited:
			if tid != st.proc.pid {
				reapThread(tid, stopLimit)
			}
			return false, nil
		case s.event == unix.PTRACE_EVENT_STOP:
			return true, nil
		}
		// On the way to it: a signal is passed on, the request stays.
		sig := 0
		if s.delivery() {
			sig = s.sig
		}
		if err := resume(tid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("stopping thread %d: %w", tid, err)
		}
	}
}

// release lets all threads go on and gives how long the first stood still.
func (st *standstill) release() time.Duration {
	for _, tid := range st.tids {
		if detach(tid, 0) != nil && !st.reap(tid) {
			interrupt(tid)
			st.stuck = append(st.stuck, tid)
		}
	}
	took := time.Since(st.since)
	for _, tid := range st.stuck {
		go letGo(st.th, tid, tid == st.proc.pid)
	}
	st.tids, st.stuck = nil, nil
	return took
}

// reap takes the end of a thread that was killed while it stood: before its tracer
// has done so the process does not end. The leader is left to its parent. It
// reports false if the thread has not ended.
func (st *standstill) reap(tid int) bool {
	if tid == st.proc.pid {
		return st.proc.ended()
	}
	return reapThread(tid, 100*time.Millisecond) == nil
}

// letGo waits for a thread that would not stop, and detaches from it then.
func letGo(th *traceThread, tid int, leader bool) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		done := false
		open := th.do(func() {
			s, ok, err := peekStop(tid)
			switch {
			case err != nil && !errors.Is(err, unix.EINTR):
				done = true
			case ok && s.exited:
				done = true
				if !leader {
					reapThread(tid, stopLimit)
				}
			case ok:
				sig := 0
				if s.delivery() {
					sig = s.sig
				}
				done = detach(tid, sig) == nil
			default: // it runs, or its stop was seen before
				done = detach(tid, 0) == nil
			}
		})
		if done || !open {
			return
		}
		time.Sleep(pause)
	}
}

// refuseTracer says that somebody else traces the process.
func refuseTracer(pid int) error {
	return refusal.New("detach the debugger", "process %d traces it", pid)
}
