package trace

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
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Standstill is a process all of whose threads are stopped and traced by the
// calling Thread, or on the way there or back.
type Standstill struct {
	Process *Process
	Thread  *Thread
	TIDs    []int // stopped threads, the leader first
	// stuck threads are attached and were asked to stop, but did not in time.
	stuck []int
	Since time.Time // of the first request to stop
	// Signal is what had stopped the process before, 0 if it ran.
	Signal int
}

// StopAll stops every thread of the process, those that are born meanwhile
// included. After an error all of them run again.
// It runs on th.
func (st *Standstill) StopAll() error {
	st.Since, st.Signal = time.Now(), 0
	if err := st.stopEach(); err != nil {
		st.Release()
		return fmt.Errorf("stopping its threads: %w", err)
	}
	// The leader has the process's number.
	i := slices.Index(st.TIDs, st.Process.PID)
	if i < 0 {
		st.Release()
		return ErrLeaderEnded
	}
	st.TIDs[0], st.TIDs[i] = st.TIDs[i], st.TIDs[0]
	return nil
}

// listThreads is proc.Threads; a test replaces it.
var listThreads = proc.Threads

// stopEach stops threads until none is left that runs. Where a thread ends while
// the kernel lists them it passes others over: that a list holds no thread that runs
// proves nothing, but that the kernel counts as many as stand does.
func (st *Standstill) stopEach() error {
	var b Backoff
	for {
		tids, err := listThreads(st.Process.PID)
		if err != nil {
			return err
		}
		stood := len(st.TIDs)
		if err := st.stopThese(slices.DeleteFunc(tids, func(tid int) bool { return slices.Contains(st.TIDs, tid) })); err != nil {
			return err
		}
		count, err := proc.CountThreads(st.Process.PID)
		switch {
		case err != nil:
			return err
		case count == len(st.TIDs):
			return nil
		case stood < len(st.TIDs):
			continue
		case IsZombie(st.Process.PID): // it counts, and stands never
			return ErrLeaderEnded // or the process has, which shows soon
		case !b.Sleep(StopLimit):
			return fmt.Errorf("%w: of %d threads %d stand", ErrBusy, count, stood)
		}
	}
}

// ErrLeaderEnded refuses a process that lives on without its first thread.
var ErrLeaderEnded = refusal.New("let the main thread live on", "its first thread has ended while others run")

// stopThese asks all of them to stop before it waits for the first.
func (st *Standstill) stopThese(tids []int) error {
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
			st.TIDs = append(st.TIDs, tid)
		}
	}
	return failed
}

// ask attaches to a thread and asks it to stop; false if it has ended.
func (st *Standstill) ask(tid int) (bool, error) {
	if there, err := st.seize(tid); !there {
		return false, err
	}
	if err := Interrupt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("stopping thread %d: %w", tid, err)
	}
	return true, nil
}

// ErrLettingGo says that a thread which would not stop in time, at an attempt before,
// is not let go yet.
var ErrLettingGo = fmt.Errorf("%w: it is still being let go", ErrBusy)

// seizeLimit bounds the time for which a thread may refuse to be attached to.
const seizeLimit = 20 * time.Millisecond

// seize attaches to a thread; false without an error if it has ended. That the
// kernel does not permit it may mean that the thread is ending, or is traced: when
// one looks it may be neither any more.
func (st *Standstill) seize(tid int) (bool, error) {
	var b Backoff
	for {
		err := Seize(tid, TraceOptions)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.ESRCH):
			return false, nil
		case !errors.Is(err, unix.EPERM):
			return false, fmt.Errorf("attaching to thread %d: %w", tid, err)
		}
		// By the process: the number may be that of another's thread by now.
		s, e := proc.Parsed(st.Process.PID, "task/"+strconv.Itoa(tid)+"/status", proc.ParseStatus)
		switch {
		case e != nil || s.Ended:
			return false, nil
		case s.Tracer != 0 && IsOurThread(s.Tracer):
			return false, fmt.Errorf("%w: thread %d", ErrLettingGo, tid)
		case s.Tracer != 0:
			return false, RefuseTracer(s.Tracer)
		case !b.Sleep(seizeLimit):
			return false, fmt.Errorf("attaching to thread %d: %w", tid, err)
		}
	}
}

// IsOurThread tells whether a thread is one of this process.
func IsOurThread(tid int) bool {
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid))
	return err == nil
}

// await waits until a thread that was asked has stopped; false if it has ended.
func (st *Standstill) await(tid int) (bool, error) {
	for {
		s, err := WaitStop(tid, StopLimit)
		switch {
		case err != nil:
			return false, err
		case s.Exited:
			if !st.Process.ours(tid) {
				Reap(tid, StopLimit)
			}
			return false, nil
		case s.event == unix.PTRACE_EVENT_STOP:
			if tid == st.Process.PID && s.Sig != int(unix.SIGTRAP) {
				st.Signal = s.Sig
			}
			return true, nil
		}
		// On the way to it: a signal is passed on, the request stays.
		sig := 0
		if s.Delivery() {
			sig = s.Sig
		}
		if err := Resume(tid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("stopping thread %d: %w", tid, err)
		}
	}
}

// Release lets all threads go on and gives how long the first stood still.
func (st *Standstill) Release() time.Duration {
	for _, tid := range st.TIDs {
		if Detach(tid, 0) != nil && !st.reap(tid) {
			Interrupt(tid)
			st.stuck = append(st.stuck, tid)
		}
	}
	took := time.Since(st.Since)
	for _, tid := range st.stuck {
		go letGo(st.Thread, tid, st.Process.ours(tid))
	}
	st.TIDs, st.stuck = nil, nil
	return took
}

// reap takes the end of a thread that was killed while it stood: before its tracer
// has done so the process does not end, and the parent is not told. It reports false if the thread has not ended.
func (st *Standstill) reap(tid int) bool {
	if st.Process.ours(tid) {
		return st.Process.Ended()
	}
	return Reap(tid, 100*time.Millisecond) == nil
}

// ours tells the leader of a process whose parent is this one: its end is left to its parent, which
// waits for it. Of another's child, such as one in a family, the tracer has to take the end first.
func (p *Process) ours(tid int) bool {
	if tid != p.PID {
		return false
	}
	s, err := proc.Parsed(p.PID, "stat", procfs.ParseStat)
	return err != nil || s.PPID == os.Getpid()
}

// letGo waits for a thread that would not stop, and detaches from it then.
func letGo(th *Thread, tid int, ours bool) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		done := false
		open := th.Do(func() {
			s, ok, err := peekStop(tid)
			switch {
			case err != nil && !errors.Is(err, unix.EINTR):
				done = true
			case ok && s.Exited:
				done = true
				if !ours {
					Reap(tid, StopLimit)
				}
			case ok:
				sig := 0
				if s.Delivery() {
					sig = s.Sig
				}
				done = Detach(tid, sig) == nil
			default: // it runs, or its stop was seen before
				done = Detach(tid, 0) == nil
			}
		})
		if done || !open {
			return
		}
		time.Sleep(pause)
	}
}

// RefuseTracer says that another process traces it.
func RefuseTracer(pid int) error {
	return refusal.New("detach the debugger", "process %d traces it", pid)
}
