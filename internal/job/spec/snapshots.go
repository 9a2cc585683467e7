package spec

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// CRAuto leaves the choice between portable images and those of whole processes
// to each checkpoint.
const CRAuto = "auto"

// ImagerName is the back-end for images of whole processes that a job uses, ""
// if it wants none.
func ImagerName(cr string) string {
	switch cr {
	case "", wire.BackendSelf:
		return ""
	case CRAuto:
		return whole.Default()
	}
	return cr
}

// Mode is how the job is to be checkpointed.
func (o *Options) Mode() uint64 {
	switch o.CR {
	case wire.BackendSelf:
		return oob.ModeSelf
	case CRAuto:
		return oob.ModeAuto
	}
	return oob.ModeNative
}

// CanImage says why a back-end cannot image a program here, and with which exit status gorun ends
// then.
func CanImage(name, program string) (code int, err error) {
	by, err := whole.Find(name)
	if err == nil {
		err = by.Supported()
	}
	if err != nil {
		return ExitFailed, err
	}
	return ExitCannotExec, by.CheckProgram(program)
}

// CheckRestart says why a snapshot cannot go on here, before any process is
// started: an image is not whole, the machine lacks something, or its output
// files are in use.
func CheckRestart(s *snapshot.Snapshot, files whole.FilesPolicy) error {
	if err := checkImages(s); err != nil {
		return err
	}
	return checkMachine(s, files)
}

// checkImages says which image is damaged. A program reads its portable image itself and begins
// before it could find damage, so all of them are read in advance. Images of whole processes are
// read, and damage is found, before a rank takes a step.
func checkImages(s *snapshot.Snapshot) error {
	if s.Schema.Backend == wire.BackendSelf {
		return s.Verify(nil)
	}
	return s.Check()
}

// checkMachine says what this machine lacks to restart a snapshot whose images are whole.
func checkMachine(s *snapshot.Snapshot, files whole.FilesPolicy) error {
	if s.Schema.Backend == wire.BackendSelf {
		return nil
	}
	by, err := whole.Find(s.Schema.Backend)
	if err == nil {
		err = by.Supported()
	}
	if err != nil {
		return fmt.Errorf("%s: its images are of back-end %s: %w", s.SchemaPath(), s.Schema.Backend, err)
	}
	if s.ProgramPath() == "" {
		return fmt.Errorf("%s: its executable was not kept with it, without which images of whole processes cannot go on", s.SchemaPath())
	}
	return Read(s, func(images []image.Source) error { return by.CheckRestart(images, files) })
}

// imagesOf lists the images of a snapshot by rank.
func imagesOf(s *snapshot.Snapshot) []image.Source { return listed(s, s.Image) }

func listed(s *snapshot.Snapshot, of func(rank int) image.Source) []image.Source {
	images := make([]image.Source, s.Schema.NP)
	for rank := range images {
		images[rank] = of(rank)
	}
	return images
}

// Read calls f with the images of a snapshot. If one is damaged it calls f again with good copies,
// which take longer to find.
func Read(s *snapshot.Snapshot, f func([]image.Source) error) error {
	err := f(imagesOf(s))
	if errors.Is(err, image.ErrCorrupt) {
		err = f(listed(s, s.Good))
	}
	return err
}

var errNoDebug = errors.New("-debug holds a rank of a snapshot of whole processes; one of back-end self starts its program from the top: start gorun restart under a debugger, or let the program wait")

// checkResize says why a snapshot cannot go on with so many ranks; 0: with as many as it has. It reads the tables of
// its images.
func checkResize(s *snapshot.Snapshot, np int) error {
	if np == 0 || np == s.Schema.NP {
		return nil
	}
	err := fmt.Errorf("its images are of whole processes (%s), which go on as they were: leave -np out; portable images (-cr=self) of a program that uses package dist can be restored by any number of ranks", s.Schema.Backend)
	if s.Schema.Backend == wire.BackendSelf {
		err = Read(s, self.Resizable)
	}
	if err != nil {
		return WithStatus(ExitUsage, fmt.Errorf("-np %d: snapshot %d was taken on %d ranks: %w", np, s.Schema.Sequence, s.Schema.NP, err))
	}
	return nil
}

// Sound returns the first of some snapshots, at least one, whose images are whole, if it can go on
// on this machine, with np ranks (0: as many as it has). If another snapshot can take its place,
// images are read completely. damaged is called for the snapshots before it. If none is whole, the
// error says why the first is not, and damaged is called for the others. slow gets a line for the
// user if a snapshot takes long.
func Sound(all []*snapshot.Snapshot, np int, files whole.FilesPolicy, damaged func(s *snapshot.Snapshot, why error), slow Slow) (*snapshot.Snapshot, error) {
	var errs []error
	tell := func(from int) {
		for i, err := range errs[from:] {
			i += from
			if i > 0 && errors.Is(err, store.ErrKey) && errors.Is(errs[i-1], store.ErrKey) {
				err = errKeyAgain
			}
			damaged(all[i], err)
		}
	}
	for _, s := range all {
		check := checkImages
		if len(all) > 1 {
			check = func(s *snapshot.Snapshot) error { return s.Verify(nil) }
		}
		done := slow.watch(s)
		err := check(s)
		done()
		if err == nil {
			tell(0)
			return s, errors.Join(checkResize(s, np), checkMachine(s, files))
		}
		errs = append(errs, err)
	}
	tell(1)
	return nil, errs[0]
}

// errKeyAgain is the short error for further snapshots that a key file does not open.
var errKeyAgain = errors.New("the same key file does not open it either")

// Slow says when and how to tell the user that reading a snapshot takes long: it is large, or a
// store does not answer, which may take minutes.
type Slow struct {
	After time.Duration
	Tell  func(line string)
}

// SlowAfter is the time after which the user gets a line.
const SlowAfter = 10 * time.Second

// watch calls Tell if the reading is not done in time.
func (w Slow) watch(s *snapshot.Snapshot) (done func()) {
	over := make(chan struct{})
	var told sync.WaitGroup
	told.Go(func() {
		select {
		case <-time.After(w.After):
			w.Tell(fmt.Sprintf("still looking at snapshot %d of job %s, %.1f MB, %s; a store that does not answer is given up after some minutes",
				s.Schema.Sequence, s.Schema.Job, float64(s.Bytes())/1e6, PlacesOf(s)))
		case <-over:
		}
	})
	return func() { close(over); told.Wait() }
}

// PlacesOf names the places of a snapshot for people.
func PlacesOf(s *snapshot.Snapshot) string {
	var all []string
	for _, c := range s.Copies() {
		in := "in "
		if c.Place() == snapshot.Beside {
			in = ""
		}
		all = append(all, in+c.Place().String())
	}
	return strings.Join(all, " and ")
}
