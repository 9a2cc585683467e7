package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
)

// env is one rank: its job, and the communicators that every job has. A process started by gorun has one env. A
// test that runs ranks as goroutines has one for each.
type env struct {
	job         *job.Job
	eng         *engine.Engine
	world, self *Comm
	leaving     atomic.Bool // Finalize was called, and waits only for what others do
	ended       atomic.Bool // and now calls fail
	onAbort     func(text string)
	watch       watch
	chooser     chooser
	buffered    buffered
	freed       atomic.Uint64 // accounts of communicators that were freed
	freedFailed atomic.Bool   // one of them had failed
}

func newEnv(j *job.Job, onAbort func(text string)) (*env, error) {
	e := &env{job: j, eng: j.Engine, onAbort: onAbort}
	if err := e.chooser.init(j); err != nil {
		return nil, err
	}
	e.watch.init(e)
	e.world = e.newComm("world", contextOf(0, 0, "world"), 0, j.Rank, j.Size, nil)
	e.self = e.newComm("self", contextOf(0, 0, "self"), 0, 0, 1, []int{j.Rank})
	if j.Size > 1 {
		e.watch.start()
	}
	return e, nil
}

// shutdown ends what newEnv began, without waiting for other ranks.
func (e *env) shutdown() {
	e.ended.Store(true)
	e.watch.stop()
}

func init() {
	job.Of = func(comm any) *job.Job {
		if c, ok := comm.(*Comm); ok && !c.none() {
			return c.env.job
		}
		return nil
	}
	job.NewWorld = func(j *job.Job, onAbort func(text string)) (any, error) {
		e, err := newEnv(j, onAbort)
		if err != nil {
			return nil, err
		}
		return e.world, nil
	}
	job.Leave = func(world any) error {
		e := world.(*Comm).env
		err := e.left()
		if err == nil {
			e.finalizing()
		}
		return err
	}
	job.Finalize = func(world any) error {
		e := world.(*Comm).env
		if err := e.left(); err != nil {
			return err
		}
		return e.finalize()
	}
	job.Account = func(world any) uint64 { return world.(*Comm).env.account() }
	job.Settle = func(world any) error {
		w := world.(*Comm)
		if err := w.env.settle(); err != nil {
			return w.fail("Finalize", err)
		}
		return nil
	}
	job.Shutdown = func(world any) { world.(*Comm).env.shutdown() }
}

// process is the rank that this process is, after Init.
var process struct {
	sync.Mutex
	env    atomic.Pointer[env]
	ending bool // a Finalize is under way
	done   bool // Finalize was called
}

// Init makes this process a rank of the job it was started in. It returns when the rank can talk to all others.
// A program started without gorun becomes a job of one rank. Init may be called once; Run calls it. Errors:
// ErrInit if it was called before; else what has gone wrong. (MPI-4.1, chapter 11.2.1)
func Init() error {
	process.Lock()
	defer process.Unlock()
	if process.done || process.env.Load() != nil {
		return (*Comm)(nil).fail("Init", fmt.Errorf("%w: Init may be called once in a process", ErrInit))
	}
	j, err := job.Connect()
	if err != nil {
		return (*Comm)(nil).fail("Init", err)
	}
	e, err := newEnv(j, nil)
	if err != nil {
		return (*Comm)(nil).fail("Init", err)
	}
	process.env.Store(e)
	return nil
}

// Initialized reports whether Init has succeeded; it stays true after Finalize.
// (MPI-4.1, chapter 11.2.3)
func Initialized() bool { return process.env.Load() != nil }

// Finalized reports whether Finalize was called and has ended communication, with an error or without. (MPI-4.1,
// chapter 11.2.3)
func Finalized() bool {
	process.Lock()
	defer process.Unlock()
	return process.done
}

// Finalize waits until every rank has called it, and ends communication. Calls made afterwards return ErrInit.
//
// First of all it frees what Keys keep with Self, and then with World, the newest first: that is how a library learns
// that communication ends, and may still use it.
//
// If a request was begun and not ended by Wait, Test or their like, Finalize returns ErrPending, even if the
// request is complete. It does the same if a matched probe took a message that was not received. The program
// may end them and call Finalize again. If ranks have disagreed about collective calls, and no call has told
// them, they get ErrMismatch. Messages that nobody has received are told by gorun at the end of the job. A rank that
// waits for one in Finalize gets ErrFinalized. A process that exits without Finalize has failed, whatever its status. (MPI-4.1,
// chapter 11.2.2)
func Finalize() error {
	e, err := finalizes()
	if err != nil {
		return err
	}
	err = e.left() // waits: an operator of the program may call anything meanwhile
	process.Lock()
	process.ending, process.done = false, err == nil
	process.Unlock()
	if err != nil {
		return err
	}
	return e.finalize()
}

// finalizes begins a Finalize.
func finalizes() (*env, error) {
	process.Lock()
	defer process.Unlock()
	e := process.env.Load()
	if e == nil || process.done || process.ending {
		return nil, (*Comm)(nil).fail("Finalize", ErrInit)
	}
	process.ending = true
	return e, nil
}

// leftShown is how many of the requests left over an error shows.
const leftShown = 4

// left frees the attributes of the communicators that last as long as the job. Then it returns an error if the program
// has begun operations and not ended them: nobody knows whether their messages were sent or received.
func (e *env) left() error {
	e.self.freeAttributes()
	e.world.freeAttributes()
	e.buffered.leave(e.eng)
	all := e.eng.Left()
	if len(all) == 0 {
		e.leaving.Store(true)
		if err := e.buffered.flush(e.eng); err != nil {
			return e.world.fail("Finalize", err)
		}
		return nil
	}
	text := strings.Join(all[:min(len(all), leftShown)], ", ")
	if len(all) > leftShown {
		text += ", ..."
	}
	return e.world.fail("Finalize", fmt.Errorf("%w: %d: %s", ErrPending, len(all), text))
}

// finalize waits for the other ranks and ends communication.
func (e *env) finalize() error {
	e.finalizing()
	e.job.OnRelease(e.sayUnreceived)
	err := e.job.Finalize(e.account(), e.settle)
	e.watch.stop() // only now: other ranks may disagree until the end
	if err == nil {
		err = e.watch.untold()
	}
	if err != nil {
		return e.world.fail("Finalize", err)
	}
	return nil
}

// finalizing makes calls fail from now on. The watch goes on: other ranks may be in calls that this one never
// made.
func (e *env) finalizing() { e.ended.Store(true) }

// World returns the communicator of all ranks of the job, nil before Init.
// (MPI-4.1, chapter 7.2.4)
func World() *Comm {
	if e := process.env.Load(); e != nil {
		return e.world
	}
	return nil
}

// Self returns the communicator of this rank alone, nil before Init.
// (MPI-4.1, chapter 7.2.4)
func Self() *Comm { return World().Self() }

// Run is a whole program: Init, then f with the world communicator, then Finalize. If f returns an error,
// panics or calls runtime.Goexit, Run prints "rank N: ..." on standard error and ends the whole job with a
// status that is not zero. It does not return then. ErrPeerFailed and ErrAborted only follow from another
// rank's end: they are reported as such and do not hide the first cause. An error with a method Lost that returns true, such as device.ErrLost,
// is a death of a part of the rank, not a decision.
func Run(f func(*Comm) error) {
	if err := Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := World()
	returned := false
	defer func() {
		if v := recover(); v != nil {
			w.env.die(1, panicText(v), panicked(v))
		} else if !returned { // nothing else would end the process
			w.env.die(1, "runtime.Goexit has ended the function given to Run", job.Decided)
		}
	}()
	err := f(w)
	returned = true
	if err == nil {
		err = Finalize()
	}
	if err != nil {
		w.env.die(1, err.Error(), ending(err))
	}
}

// ending is how a rank ends whose program has returned an error.
func ending(err error) job.Ending {
	var part interface{ Lost() bool }
	switch {
	case errors.Is(err, ErrPeerFailed), errors.Is(err, ErrAborted):
		return job.Follows
	case errors.As(err, &part) && part.Lost():
		return job.Lost // something of this rank has died
	}
	return job.Decided
}

// Abort ends all ranks of the job. The launcher exits with the given status, 1 to 255; other numbers count as
// 1. Abort does not return. (MPI-4.1, chapter 11.4.2)
func Abort(c *Comm, code int) {
	if code < 1 || code > 255 {
		code = 1
	}
	if c.none() {
		c = World() // which communicator it is makes no difference
	}
	if c.none() {
		fmt.Fprintf(os.Stderr, "Abort was called with status %d\n", code)
		os.Exit(code)
	}
	c.env.die(code, fmt.Sprintf("Abort was called with status %d", code), job.Decided)
}

// die tells the user and the head, and ends the process. In a test that runs ranks as goroutines it ends this
// rank's goroutine and makes the other ranks fail.
func (e *env) die(code int, text string, why job.Ending) {
	if e.onAbort != nil {
		e.onAbort(text)
	}
	name := fmt.Sprintf("rank %d: ", e.job.Rank)
	text = strings.TrimPrefix(text, name) // many programs begin their errors with it
	fmt.Fprintf(os.Stderr, "%s%s\n", name, text)
	// Without a launcher there is nobody to tell. The status below is all.
	_ = e.job.Abort(code, text, why)
	os.Exit(code)
}

// panicked is how a rank ends that has panicked.
func panicked(v any) job.Ending {
	var part interface{ Lost() bool }
	if err, _ := v.(error); err != nil && errors.As(err, &part) && part.Lost() {
		return job.Lost
	}
	return job.Panicked
}

func panicText(v any) string { return fmt.Sprintf("panic: %v\n\n%s", v, debug.Stack()) }
