package job

import (
	"errors"

	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// Backend images a rank from within, standing at a Point. Package cr provides
// the portable one; mpi does not import it.
type Backend interface {
	// Ready says what is missing before this rank can be imaged, nil if nothing. It
	// is called on any goroutine.
	Ready() error
	// Before runs on the program's goroutine, at the Point, gate open.
	Before() error
	// Capture copies the state; the program stands still and the gate is
	// closed. What it returns is written behind. point is the Point's number;
	// the saved messages are copies and belong to the callee.
	Capture(cfg oob.CaptureConfig, saved []rpi.Saved, point uint64) (Snapshot, error)
	// After runs on the program's goroutine before it leaves the Point.
	After() error
	// FirstPoint runs on the program's goroutine at the first Point after a
	// restart: it gives the saved messages to the engine.
	FirstPoint() error
}

// Snapshot is a copy of a rank's state on its way to storage.
type Snapshot interface {
	// Bytes is the size of the copied data.
	Bytes() uint64
	// Write makes it durable. It reports the bytes written so far and gives
	// up, leaving no file, when cancel is closed.
	Write(progress func(uint64), cancel <-chan struct{}) (oob.ImageInfo, error)
	// Release frees the copy; after Write has returned, or instead of it.
	Release()
}

// NewBackend is set by package cr when a program imports it.
var NewBackend func(*Job) Backend

// ErrNoBackend says that a program cannot be imaged at a Point.
var ErrNoBackend = errors.New("the program registers no state: import github.com/gorun-mpi/gorun/cr, call cr.Register for what must be saved and cr.Point in its loop")

// ErrNothing says that a program has nothing to save although it could have.
var ErrNothing = errors.New("the program has registered nothing: call cr.Register for what must be saved, before the first cr.Point, and cr.Point in its loop")

// Backend returns the rank's portable back-end, made on first use; nil in a
// program that does not import package cr.
func (j *Job) Backend() Backend {
	j.backend.Lock()
	defer j.backend.Unlock()
	if j.backend.b == nil && NewBackend != nil {
		j.backend.b = NewBackend(j)
	}
	return j.backend.b
}

// lacks says what is missing before this rank can be imaged at a Point.
func (j *Job) lacks() error {
	b := j.Backend()
	if b == nil {
		return ErrNoBackend
	}
	return b.Ready()
}

// Of is set by package mpi: the job a *mpi.Comm belongs to.
var Of func(comm any) *Job
