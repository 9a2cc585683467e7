// Package cr makes a program's own state part of a checkpoint: portable images
// of what the program registers, taken at the Points it names.
//
//	var iter int
//	x := make([]float64, n)
//	cr.Register("iter", &iter)
//	cr.Register("x", &x)
//	for ; iter < iters; iter++ {
//		cr.Point()
//		... compute and communicate ...
//	}
//
// After a restart the program runs from the top. Register hands the saved
// values back, so the loop goes on from the saved counter; communicators are
// made again by the same calls in the same order; messages that had been sent
// before the checkpoint and not yet received are there again from the first
// Point on.
//
// The contract: all ranks call Point equally often, and the k-th Points of all
// ranks form a cut: a rank may run ahead of another, but no message that is
// sent after the sender's k-th Point is received before the receiver's k-th
// Point. A loop with one Point per iteration that exchanges messages within the
// iteration keeps it. A collective call is on the same side of a Point on all
// its ranks: after a restart communicators count their collectives from 1 again.
// No request may be pending at a Point, and one goroutine at a time calls it.
// Point costs an atomic increment when no checkpoint is wanted.
//
// Variables are registered before the first Point, but not necessarily at once:
// while a rank has registered none, Points or not, -cr=auto takes whole processes,
// the first time after a wait of seconds; -cr=self waits for a Point, and refuses one
// where nothing is registered.
//
// In a program that was started without gorun everything here works and no
// checkpoint is ever taken.
package cr

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/job"
	"github.com/gorun-mpi/gorun/mpi"
)

// Errors of this package, for errors.Is.
var (
	// ErrNotInitialized is returned before mpi.Init.
	ErrNotInitialized = errors.New("cr: mpi.Init has not been called")
	// ErrMismatch says that the program and the image it is restarted from do
	// not fit: a name, a type or a communicator is missing on one side.
	ErrMismatch = errors.New("cr: program and image do not fit")
)

// Registry is the registered state of one rank. A process has one of its own,
// which the package-level functions use; On gives that of one rank where ranks
// are goroutines (package mpi/mpitest).
type Registry struct {
	j   *job.Job
	reg self.Registry

	mu         sync.Mutex
	restore    *self.Restore // the image's content until the first Point
	checkpoint []func() error
	cont       []func() error
	restart    []func() error
}

func init() {
	job.NewBackend = func(j *job.Job) job.Backend { return &backend{&Registry{j: j}} }
}

func of(j *job.Job) *Registry { return j.Backend().(*backend).r }

func own() (*Registry, error) {
	j := job.Default()
	if j == nil {
		return nil, ErrNotInitialized
	}
	return of(j), nil
}

// On returns the registry of the rank that c belongs to.
func On(c *mpi.Comm) *Registry { return of(job.Of(c)) }

// Register makes *ptr part of every image of this rank under the given name,
// and, after a restart, sets it to the saved value at once. It takes pointers
// to numbers, booleans, strings, arrays, slices, maps and structs of these. The
// memory stays the program's; it is read at Points only. A slice may be
// replaced or resized between Points.
//
// Errors: a name registered twice, a kind that cannot be saved, and, after a
// restart, ErrMismatch if the image has no variable of that name and type.
func Register(name string, ptr any) error {
	r, err := own()
	if err != nil {
		return err
	}
	return r.Register(name, ptr)
}

// Register is the package-level Register for one rank.
func (r *Registry) Register(name string, ptr any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reg.Register(name, ptr); err != nil {
		return fmt.Errorf("rank %d: %w", r.j.Rank, err)
	}
	if !r.j.Restarted() {
		return nil
	}
	if err := r.open(); err != nil {
		return err
	}
	err := r.restore.Fill(name, ptr)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, self.ErrMissing), errors.Is(err, self.ErrType):
		return fmt.Errorf("%w: rank %d: %w", ErrMismatch, r.j.Rank, err)
	}
	return fmt.Errorf("rank %d: %w", r.j.Rank, err) // the image cannot be read
}

// open reads the image that this rank was restarted from. Caller holds mu.
func (r *Registry) open() error {
	if r.restore != nil {
		return nil
	}
	img, err := self.Open(r.j.Image)
	if err != nil {
		return fmt.Errorf("rank %d: %w", r.j.Rank, err)
	}
	if m := img.Meta(); m.Rank != r.j.Rank || m.Size != r.j.Size {
		return fmt.Errorf("%w: %s is the image of rank %d of %d, this is rank %d of %d", ErrMismatch, r.j.Image, m.Rank, m.Size, r.j.Rank, r.j.Size)
	}
	r.restore = img
	return nil
}

// Point marks a place where the program may be stopped for an image; see the
// package comment for what it promises. It returns an error only if the job is
// ending, or at the first Point after a restart if program and image do not
// fit.
func Point() error {
	j := job.Default()
	if j == nil {
		return ErrNotInitialized
	}
	return j.Point()
}

// Point is the package-level Point for one rank.
func (r *Registry) Point() error { return r.j.Point() }

// Restarted reports whether this program goes on from an image.
func Restarted() bool {
	j := job.Default()
	return j != nil && j.Restarted()
}

// Restarted is the package-level Restarted for one rank.
func (r *Registry) Restarted() bool { return r.j.Restarted() }

// OnCheckpoint adds a function that runs at the Point, on the goroutine that
// called it, before an image is made: to flush files, say. It must not send or
// receive. An error ends the attempt with that text; the job goes on.
func OnCheckpoint(f func() error) error {
	return with(func(r *Registry) { r.OnCheckpoint(f) })
}

// OnContinue adds a function that runs after an image was made, or the attempt
// given up, before Point returns in the same process. Point returns its error.
func OnContinue(f func() error) error {
	return with(func(r *Registry) { r.OnContinue(f) })
}

// OnRestart adds a function that runs within the first Point after a restart,
// when registered values are back: to reopen files, say. Point returns its
// error.
func OnRestart(f func() error) error {
	return with(func(r *Registry) { r.OnRestart(f) })
}

func with(f func(*Registry)) error {
	r, err := own()
	if err == nil {
		f(r)
	}
	return err
}

// OnCheckpoint is the package-level OnCheckpoint for one rank.
func (r *Registry) OnCheckpoint(f func() error) { r.add(&r.checkpoint, f) }

// OnContinue is the package-level OnContinue for one rank.
func (r *Registry) OnContinue(f func() error) { r.add(&r.cont, f) }

// OnRestart is the package-level OnRestart for one rank.
func (r *Registry) OnRestart(f func() error) { r.add(&r.restart, f) }

func (r *Registry) add(list *[]func() error, f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, f)
}

func (r *Registry) call(list *[]func() error) error {
	r.mu.Lock()
	fs := append([]func() error(nil), *list...)
	r.mu.Unlock()
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
