package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// ImageError says what is wrong with the image of one rank.
type ImageError struct {
	Rank int
	Path string
	Err  error // wraps ErrImage or an error of package image or of the system
}

// Error names rank, file, reason and remedy.
func (e *ImageError) Error() string {
	remedy := "restart from another snapshot"
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		remedy = "bring the file back or restart from another snapshot"
	case errors.Is(e.Err, fs.ErrPermission):
		remedy = "make the file readable for this user"
	}
	err := e.Err
	var ie *image.Error
	if errors.As(err, new(*allBad)) {
		// it names the copies
	} else if errors.As(err, &ie) { // its text would name file and remedy again
		err = ie.Err
		if ie.Section != "" {
			err = fmt.Errorf("section %q: %w", ie.Section, err)
		}
	}
	return fmt.Sprintf("rank %d: image %s: %v (%s)", e.Rank, e.Path, withoutPath(err), remedy)
}

// withoutPath returns an error of the system without its path: the text would name the file twice.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Unwrap gives the reason.
func (e *ImageError) Unwrap() error { return e.Err }

// maxReported bounds how many images one error names.
const maxReported = 10

// Check looks at every image that a restart needs, also those of snapshots it builds on, without reading all of
// it: existence, size, digest, and whether rank, job, incarnation and sequence are right. It also looks at the
// kept program. A restart does this before it starts anything. The sums of the data are checked as it is read.
func (s *Snapshot) Check() error { return s.verify(nil, false) }

// Verify is Check, and reads all of every image. progress, if not nil, is called with the bytes done so far,
// one call at a time. The error is made of *ImageError, ErrChain and ErrProgram.
func (s *Snapshot) Verify(progress func(done, total int64)) error { return s.verify(progress, true) }

func (s *Snapshot) verify(progress func(done, total int64), whole bool) error {
	chain, err := s.links()
	errs := []error{s.checkProgram(), err}
	if err != nil { // go on: the images that are here are checked
		chain = []link{{s, nil}}
		for rank := range s.Schema.NP {
			chain[0].ranks = append(chain[0].ranks, rank)
		}
	}
	v := &verifier{whole: whole, progress: progress}
	for _, l := range chain {
		for _, rank := range l.ranks {
			v.add(l.Snapshot, rank)
		}
	}
	return errors.Join(append([]error{v.run()}, errs...)...)
}

// verifier checks images, several at a time.
type verifier struct {
	jobs     []verifyJob
	whole    bool
	progress func(done, total int64)

	mu          sync.Mutex
	done, total int64
}

type verifyJob struct {
	s  *Snapshot
	im Image
}

func (v *verifier) add(s *Snapshot, rank int) {
	im := s.Schema.Images[rank]
	v.jobs = append(v.jobs, verifyJob{s, im})
	v.total += im.Size
}

// run gathers the errors in the order of the jobs.
func (v *verifier) run() error {
	errs := make([]error, len(v.jobs))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(errs)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = v.one(v.jobs[i])
			}
		})
	}
	for i := range errs {
		next <- i
	}
	close(next)
	wg.Wait()
	return gather(errs)
}

func (v *verifier) one(j verifyJob) error {
	err := j.s.checkImage(j.im, v.whole)
	v.mu.Lock()
	v.done += j.im.Size
	if v.progress != nil {
		v.progress(v.done, v.total)
	}
	v.mu.Unlock()
	if err != nil {
		return &ImageError{j.im.Rank, j.s.Image(j.im.Rank).String(), err}
	}
	return nil
}

// gather makes one error of those of several images. Where the key is the reason it is so for all of them, and said once.
func gather(errs []error) error {
	var bad []error
	keyless := 0
	for _, err := range errs {
		if errors.Is(err, store.ErrKey) {
			if keyless++; keyless > 1 {
				continue
			}
		}
		if err != nil {
			bad = append(bad, err)
		}
	}
	if keyless > 1 {
		bad = append(bad, fmt.Errorf("nor does it open %d more images", keyless-1))
	}
	if n := len(bad); n > maxReported {
		bad = append(bad[:maxReported:maxReported], fmt.Errorf("and %d more images", n-maxReported))
	}
	return errors.Join(bad...)
}

// Checker is what a store has besides if images can be checked where they lie. The digest and the meta are those
// of the image. With whole, all of it is read and checked. If there are several copies, a good one suffices.
type Checker interface {
	Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error)
}

// checkImage checks the copies of an image until one is good.
func (s *Snapshot) checkImage(im Image, whole bool) error {
	var errs []error
	for _, c := range s.Copies() {
		err := s.checkCopy(c, im, whole)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return pieceErrors(s.Copies(), errs)
}

// checkCopy checks an image in one copy.
func (s *Snapshot) checkCopy(c Copy, im Image, whole bool) error {
	size, digest, m, err := s.look(c, im, whole)
	switch {
	case err != nil:
		return err
	case size != im.Size:
		return fmt.Errorf("%w: %d bytes, the schema says %d", ErrImage, size, im.Size)
	case digest != im.Digest:
		return fmt.Errorf("%w: digest %s, the schema says %s", ErrImage, digest, im.Digest)
	}
	for _, c := range []struct {
		what      string
		have, say any
	}{
		{"job", m.Job, s.Schema.Job},
		{"incarnation", m.Incarnation, s.Schema.Incarnation},
		{"sequence", m.Seq, s.Schema.Sequence},
		{"rank", m.Rank, im.Rank},
		{"number of ranks", m.Size, s.Schema.NP},
		{"back-end", m.Backend, s.Schema.Backend},
	} {
		if c.have != c.say {
			return fmt.Errorf("%w: it belongs to %s %v, the schema to %v", ErrImage, c.what, c.have, c.say)
		}
	}
	return nil
}

// look opens an image, or has that done where it lies, and with whole reads all of it.
func (s *Snapshot) look(at Copy, im Image, whole bool) (size int64, digest string, m image.Meta, err error) {
	if at.Store == "" {
		if err := checkFile(filepath.Join(s.Dir, im.File), im); err != nil {
			return 0, "", m, err
		}
	} else {
		st, err := s.images(at)
		if err != nil {
			return 0, "", m, err
		}
		if c, ok := st.(Checker); ok {
			return c.Check(context.Background(), at.Set, im.File, whole)
		}
	}
	r, err := s.source(at, im).Open()
	if err != nil {
		return 0, "", m, err
	}
	defer r.Close()
	if whole {
		err = r.Verify()
	}
	return r.Size(), r.Digest(), r.Meta(), err
}
