// Package cr makes a program's own state part of a checkpoint: portable images
// of what the program registers, taken at the Points it names.
//
//	var iter int
//	x := make([]float64, n)
//	for name, state := range map[string]any{"iter": &iter, "x": &x} {
//		if err := cr.Register(name, state); err != nil {
//			return err
//		}
//	}
//	for ; iter < iters; iter++ {
//		if err := cr.Point(); err != nil {
//			return err
//		}
//		... compute and communicate ...
//	}
//
// After a restart the program runs from the top. Register gives the saved values back, so the loop goes on from
// the saved counter. The same calls in the same order make the communicators again. Messages that were sent
// before the checkpoint and not yet received are there from the first Point on.
//
// A program that does not fit its image cannot go on. After ErrMismatch every later call of this package and of
// mpi fails, and so does Finalize. The program must claim all that the image holds. It may register a variable
// that the image does not hold, such as a new one.
//
// The contract is that all ranks call Point equally often, and that the k-th Points of all ranks form a cut. A
// rank may run ahead of another. But a message that is sent after the sender's k-th Point must not be received
// before the receiver's k-th Point. A loop keeps the contract if it has one Point per iteration and exchanges
// messages within the iteration. A collective call is on the same side of a Point on all its ranks: after a
// restart communicators count their collectives from 1 again. No request may be pending at a Point. One
// goroutine at a time calls Point. Point costs an atomic increment when no checkpoint is wanted.
//
// Variables are registered before the first Point, but not necessarily at once. While a rank has registered
// none,
// -cr=auto takes native images, whether the program calls Point or not; the first time it waits some seconds. -cr=self
// waits for a Point, and refuses one where nothing is registered.
//
// Hold and Release enclose a section in which no checkpoint falls. File opens a file that goes back with the program.
//
// Within the first Point after a restart this happens, in this order: files are brought to where they stood, the
// functions of Rebuild run, saved messages arrive, the functions of OnRestart run.
//
// In a program that was started without gorun everything here works, and no checkpoint is ever taken.
package cr

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/storage/imagepipe"
	"github.com/gorun-mpi/gorun/mpi"
)

// Errors of this package, for errors.Is.
var (
	// ErrNotInitialized is returned before mpi.Init.
	ErrNotInitialized = errors.New("cr: mpi.Init has not been called")
	// ErrMismatch says that the program and the image it is restarted from do not fit. A type differs, or the
	// program does not claim a variable or a communicator of the image. All later calls fail, too.
	ErrMismatch = errors.New("cr: program and image do not fit")
)

// Registry is the registered state of one rank. A process has one of its own, which the package-level functions
// use. Where ranks are goroutines (package mpi/mpitest), On returns the Registry of one rank.
type Registry struct {
	j   *job.Job
	reg self.Registry

	mu         sync.Mutex
	restore    content   // of the image, until the first Point; nil: it is not open
	fresh      []string  // variables that the image does not hold
	fetch      []fetcher // of variables that lie elsewhere
	files      []*file
	rebuild    []func() error
	checkpoint []func() error
	cont       []func() error
	restart    []func() error
}

// content is what a rank goes on from: its own image, or those of another number of ranks.
type content interface {
	Fill(name string, ptr any) error
	Unclaimed() []string
	Messages() []engine.Saved
	Meta() image.Meta
	Close() error
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

// Register makes *ptr part of every image of this rank, under the given name. After a restart it sets *ptr to
// the saved value at once. The memory stays the program's, and is read at Points only. A slice may be replaced
// or resized between Points. After a restart it is in the memory that it had at the call, if that is large enough:
// a Halo or a persistent call that was made of it before stays of use.
//
// Register takes pointers to booleans, numbers, strings, and to arrays, slices, maps and structs of these, with
// unexported fields. Other types (pointers, interfaces, channels, functions) can be registered if they have
// MarshalBinary and UnmarshalBinary, and so can types that contain them. time.Time is an example.
//
// A variable whose value may lie elsewhere than in the program's memory has a method Image, as device.Array has:
//
//	Image() (ptr any, fetch, restored func() error)
//
// Then *ptr is registered in its place. When an image is to be made, fetch is called at the Point to make *ptr valid, after the functions of
// OnCheckpoint and with the same rules; restored is called when a restart has set *ptr.
//
// Register takes a *dist.Array, a *dist.Grid, and what dist.Replicated returns, as well. If all that is registered is of these, the program
// can be restarted with another number of ranks, see package dist. Else ErrMismatch names the variable.
//
// After a restart, a variable that the image does not hold stays as it is, and the user is told at the first
// Point. If the image holds a variable that the program does not register, that Point returns ErrMismatch.
//
// Errors: a name registered twice; a type that cannot be saved; after a restart, ErrMismatch if the image has a
// variable of that name and another type.
func Register(name string, ptr any) error {
	r, err := own()
	if err != nil {
		return err
	}
	return r.Register(name, ptr)
}

// Register is the package-level Register for one rank.
func (r *Registry) Register(name string, ptr any) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	restored := func() error { return nil }
	if v, ok := ptr.(imaged); ok {
		var fetch func() error
		ptr, fetch, restored = v.Image()
		defer func() {
			if err == nil {
				r.fetch = append(r.fetch, fetcher{name, fetch})
			}
		}()
	}
	if err := r.reg.Register(name, ptr); err != nil {
		return fmt.Errorf("rank %d: %w", r.j.Rank, err)
	}
	if !r.j.Restarted() {
		return nil
	}
	if err := r.j.Misfit(); err != nil {
		return r.named(err)
	}
	if err := r.fill(name, ptr, restored); err != nil {
		r.j.FailRestart(err)
		return r.named(err)
	}
	return nil
}

// named puts the rank before a misfit. The misfit itself does not name it, because the errors of mpi in which
// it is told again do.
func (r *Registry) named(err error) error { return fmt.Errorf("rank %d: %w", r.j.Rank, err) }

// imaged is a variable whose value may lie elsewhere: see Register.
type imaged interface {
	Image() (ptr any, fetch, restored func() error)
}

// fetcher makes a variable valid in the program's memory.
type fetcher struct {
	name  string
	fetch func() error
}

// fill sets a variable to what the image holds, and calls restored then. Caller holds mu.
func (r *Registry) fill(name string, ptr any, restored func() error) error {
	if err := r.open(); err != nil {
		return err
	}
	err := r.restore.Fill(name, ptr)
	switch {
	case err == nil:
		if err := restored(); err != nil {
			return fmt.Errorf("%w: variable %q: %w", ErrMismatch, name, err)
		}
		return nil
	case errors.Is(err, self.ErrMissing):
		r.fresh = append(r.fresh, name)
		return nil
	case errors.Is(err, self.ErrType), errors.Is(err, self.ErrResize):
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return err // the image cannot be read
}

// open reads the image that this rank was restarted from. Caller holds mu.
func (r *Registry) open() error {
	if r.restore != nil {
		return nil
	}
	if n := r.j.ImageOf; n > 0 {
		img, err := self.OpenResized(imagepipe.Library(r.j.Image), n, r.j.Rank, r.j.Size)
		if err == nil {
			r.restore = img
		}
		return err
	}
	img, err := self.Open(imagepipe.File(r.j.Image))
	if err != nil {
		return err
	}
	if m := img.Meta(); m.Rank != r.j.Rank || m.Size != r.j.Size {
		return fmt.Errorf("%w: %s is the image of rank %d of %d, this is rank %d of %d", ErrMismatch, r.j.Image, m.Rank, m.Size, r.j.Rank, r.j.Size)
	}
	r.restore = img
	return nil
}

// Point marks a place where the program may be stopped for an image. The package comment states the contract.
// Point returns an error only if the job is ending, or if program and image do not fit. The first Point after a
// restart finds that out.
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

// OnCheckpoint adds a function that runs at the Point before an image is made, on the goroutine
// that called Point. It may flush files, for example. It may send, receive and call collectives:
// all ranks stand at the same Point and call their functions there, even if the attempt has been
// given up for a rank that came late. So each rank takes its part, and returns an error only
// afterwards: others would wait for it. It completes the requests that it begins, and its messages
// are received before the Point or saved, as elsewhere. An error ends the attempt with that text,
// and the job goes on. Images of whole processes are made without it: no Point is near.
func OnCheckpoint(f func() error) error {
	return with(func(r *Registry) { r.OnCheckpoint(f) })
}

// OnContinue adds a function that runs after an image was made or the attempt was given up, before Point
// returns in the same process. Point returns its error.
func OnContinue(f func() error) error {
	return with(func(r *Registry) { r.OnContinue(f) })
}

// Rebuild runs f at once, and once more within the first Point after a restart, when all registered variables have
// their saved values. Use it for what follows from them and is not registered itself: tables, indexes, sub-slices.
// Functions run in the order of their calls of Rebuild, with files of File at their places. They may exchange messages,
// as set-up code may; saved messages arrive after them. Rebuild, or that Point, returns the error of f.
func Rebuild(f func() error) error {
	r, err := own()
	if err != nil {
		return err
	}
	return r.Rebuild(f)
}

// Rebuild is the package-level Rebuild for one rank.
func (r *Registry) Rebuild(f func() error) error {
	r.add(&r.rebuild, f)
	return f()
}

// OnRestart adds a function that runs within the first Point after a restart, when registered values are back.
// It may reopen connections, for example; for files there is File. Point returns its error.
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
