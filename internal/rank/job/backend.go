package job

import (
	"errors"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Backend images a rank from within, at a Point. Package cr provides the portable one. mpi does not import it.
type Backend interface {
	// Ready says what is missing before this rank can be imaged, or returns nil. Any goroutine may call it.
	Ready() error
	// OnCheckpoint calls the program's functions for the time before an image, on its goroutine, at the Point, gate open. They may
	// communicate with those of other ranks.
	OnCheckpoint() error
	// Before runs after that, where the rank is ready.
	Before() error
	// Capture copies the state. The program stands still, and the gate is closed. The returned copy is written
	// later. point is the Point's number. The saved messages are copies and belong to the callee.
	Capture(cfg oob.CaptureConfig, saved []engine.Saved, point uint64) (Snapshot, error)
	// After runs on the program's goroutine before it leaves the Point.
	After() error
	// FirstPoint runs on the program's goroutine at the first Point after a restart. It gives the saved
	// messages to the engine.
	FirstPoint() error
	// Noted returns the note under a key in the image that a restarted program began from, "" if
	// there is none.
	Noted(key string) (string, error)
	// Claimed returns an error that names the state which a restarted program has not taken from
	// its image. Finalize calls it if the program has come to no Point.
	Claimed() error
}

// Snapshot is a copy of a rank's state on its way to storage.
type Snapshot interface {
	// Bytes is the size of the copied data.
	Bytes() uint64
	// Write makes it durable. It reports the bytes written so far. When cancel is closed it gives up and leaves
	// no file.
	Write(progress func(uint64), cancel <-chan struct{}) (oob.ImageInfo, error)
	// Release frees the copy, after Write has returned or instead of it.
	Release()
}

// NewBackend is set by package cr when a program imports it.
var NewBackend func(*Job) Backend

// ErrNoBackend says that a program cannot be imaged at a Point.
var ErrNoBackend = errors.New("the program registers no state: import github.com/gorun-mpi/gorun/cr, call cr.Register for what must be saved and cr.Point in its loop")

// ErrNothing says that a program has registered nothing although it could have.
var ErrNothing = errors.New("the program has registered nothing: call cr.Register for what must be saved, before the first cr.Point, and cr.Point in its loop")

// Backend returns the rank's portable back-end, which it makes on first use. It returns nil in a program that
// does not import package cr.
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
