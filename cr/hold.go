package cr

import (
	"fmt"
	"path"
	"runtime"

	"github.com/gorun-mpi/gorun/internal/rank/job"
)

// ErrNotHeld is returned by a Release without a Hold.
var ErrNotHeld = job.ErrNotHeld

// Hold begins a section in which no checkpoint falls, in any rank of the job. Use it for what an image cannot
// show or a restart cannot repeat: a file that is replaced, a service that is called, a device in use. A
// section should be short. A checkpoint that is asked for meanwhile waits for Release; if it waits for too long
// its error names this rank and the place of the call. Periodic checkpoints are made up for afterwards.
//
// Hold returns when the section has begun. It asks gorun, which takes some ten microseconds, and waits while a
// checkpoint is being taken, though not while one is being written. Sections of one rank may nest or overlap:
// checkpoints may fall again after as many calls of Release. A rank that dies or enters Finalize holds no longer.
// After a restart nothing is held, because no image is taken in a section.
//
// Any goroutine may call Hold and Release. Point may be called within a section; no image is taken there. In a
// job without checkpoints Hold only counts.
func Hold() error {
	r, err := own()
	if err != nil {
		return err
	}
	return r.hold(2)
}

// Release ends a section that Hold has begun. Errors: ErrNotHeld.
func Release() error {
	r, err := own()
	if err != nil {
		return err
	}
	return r.Release()
}

// Hold is the package-level Hold for one rank.
func (r *Registry) Hold() error { return r.hold(2) }

// Release is the package-level Release for one rank.
func (r *Registry) Release() error {
	if err := r.j.Release(); err != nil {
		return fmt.Errorf("rank %d: cr.Release: %w", r.j.Rank, err)
	}
	return nil
}

// hold tells the place of the call that many callers up.
func (r *Registry) hold(up int) error {
	if err := r.j.Hold(place(up + 1)); err != nil {
		return fmt.Errorf("rank %d: cr.Hold: %w", r.j.Rank, err)
	}
	return nil
}

// place is a place in the program, as in main.step at /home/me/main.go:88.
func place(up int) string {
	pc := make([]uintptr, 1)
	if runtime.Callers(up+1, pc) == 0 {
		return "an unknown place"
	}
	f, _ := runtime.CallersFrames(pc).Next()
	return fmt.Sprintf("%s at %s:%d", path.Base(f.Function), f.File, f.Line)
}
