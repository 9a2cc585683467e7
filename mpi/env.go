package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/job"
	"github.com/gorun-mpi/gorun/rpi"
)

// env is one rank: its job, and the communicators that every job has. A
// process started by gorun has one, a test that runs ranks as goroutines many.
type env struct {
	job         *job.Job
	eng         *rpi.Engine
	world, self *Comm
	ended       atomic.Bool // Finalize was called
	onAbort     func(text string)
	watch       watch
	chooser     chooser
}

// NewWorld returns the world communicator of a rank whose job is given by
// internal/job: for mpitest, and whoever else runs ranks within a process.
// onAbort is what Abort does there instead of leaving the process; it must not
// return. It panics if the job has parameters that are wrong. Programs call
// Run, or Init and World.
func NewWorld(j *job.Job, onAbort func(text string)) *Comm {
	e, err := newEnv(j, onAbort)
	if err != nil {
		panic(err)
	}
	return e.world
}

func newEnv(j *job.Job, onAbort func(text string)) (*env, error) {
	e := &env{job: j, eng: j.Engine, onAbort: onAbort}
	if err := e.chooser.init(j); err != nil {
		return nil, err
	}
	e.watch.init(e)
	e.world = e.newComm("world", contextOf(0, 0, "world"), j.Rank, j.Size, nil)
	e.self = e.newComm("self", contextOf(0, 0, "self"), 0, 1, []int{j.Rank})
	return e, nil
}

// Shutdown ends what NewWorld began, without waiting for other ranks.
// Finalize does it for the world of Init.
func Shutdown(world *Comm) { world.env.shutdown() }

func (e *env) shutdown() {
	e.ended.Store(true)
	e.watch.stop()
}

// JobOf returns the job that a communicator belongs to, for the other packages
// of this module.
func JobOf(c *Comm) *job.Job { return c.env.job }

func init() {
	job.Of = func(comm any) *job.Job {
		if c, ok := comm.(*Comm); ok && c != nil {
			return JobOf(c)
		}
		return nil
	}
}

// process is the rank that this process is, after Init.
var process struct {
	sync.Mutex
	env  atomic.Pointer[env]
	done bool // Finalize was called
}

// Init makes this process a rank of the job it was started in and returns when
// it can talk to all others. A program started without gorun becomes a job of
// one rank. It may be called once; Run calls it. (MPI-4.1, chapter 11.2.1)
func Init() error {
	process.Lock()
	defer process.Unlock()
	if process.done || process.env.Load() != nil {
		return &Error{Call: "Init", Err: fmt.Errorf("%w: Init may be called once in a process", ErrInit)}
	}
	j, err := job.Connect()
	if err != nil {
		return &Error{Call: "Init", Err: err}
	}
	e, err := newEnv(j, nil)
	if err != nil {
		return &Error{Call: "Init", Err: err}
	}
	process.env.Store(e)
	return nil
}

// Initialized reports whether Init has succeeded; it stays true after Finalize.
// (MPI-4.1, chapter 11.2.2)
func Initialized() bool { return process.env.Load() != nil }

// Finalize waits until every rank has called it and ends communication; calls
// made afterwards return ErrInit. All requests must be complete. A process that
// exits without it has failed, whatever its status. (MPI-4.1, chapter 11.2.2)
func Finalize() error {
	process.Lock()
	defer process.Unlock()
	e := process.env.Load()
	if e == nil || process.done {
		return &Error{Call: "Finalize", Err: ErrInit}
	}
	process.done = true
	e.finalizing()
	err := e.job.Finalize()
	e.watch.stop() // not before: other ranks may still disagree
	if err != nil {
		return &Error{Call: "Finalize", Err: err}
	}
	return nil
}

// finalizing ends what calls can do, but for the watch: other ranks may be in calls
// that this one never made.
func (e *env) finalizing() {
	e.ended.Store(true)
	if e.world.size > 1 {
		e.watch.start()
	}
}

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

// Run is a whole program: Init, f with the world communicator, Finalize. If f
// returns an error or panics, "rank N: ..." is printed on standard error and
// the whole job ends with a status that is not zero; Run does not return then.
// An error that only follows from another rank's end (ErrPeerFailed,
// ErrAborted) is reported as such and does not hide the first cause.
func Run(f func(*Comm) error) {
	if err := Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := World()
	defer func() {
		if v := recover(); v != nil {
			w.env.die(1, panicText(v), false)
		}
	}()
	err := f(w)
	if err == nil {
		err = Finalize()
	}
	if err != nil {
		w.env.die(1, err.Error(), errors.Is(err, ErrPeerFailed) || errors.Is(err, ErrAborted))
	}
}

// Abort ends all ranks of the job; the launcher exits with the given status
// (1..255; others count as 1). It does not return. (MPI-4.1, chapter 9.7)
func Abort(c *Comm, code int) {
	if code < 1 || code > 255 {
		code = 1
	}
	if c == nil {
		fmt.Fprintf(os.Stderr, "Abort was called with status %d\n", code)
		os.Exit(code)
	}
	c.env.die(code, fmt.Sprintf("Abort was called with status %d", code), false)
}

// die tells the user and the head, and leaves the process. In a test that runs
// ranks as goroutines it ends this rank's goroutine and fails the others.
func (e *env) die(code int, text string, secondary bool) {
	if e.onAbort != nil {
		e.onAbort(text)
	}
	fmt.Fprintf(os.Stderr, "rank %d: %s\n", e.job.Rank, text)
	// Without a launcher there is nobody to tell; the status below is all.
	_ = e.job.Abort(code, text, secondary)
	os.Exit(code)
}

// panicText is a panic's value with the stack it came from.
func panicText(v any) string { return fmt.Sprintf("panic: %v\n\n%s", v, debug.Stack()) }
