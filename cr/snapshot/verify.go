package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
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
	if errors.As(err, &ie) { // its text would name file and remedy again
		err = ie.Err
		if ie.Section != "" {
			err = fmt.Errorf("section %q: %w", ie.Section, err)
		}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Sprintf("rank %d: image %s: %v (%s)", e.Rank, e.Path, err, remedy)
}

// Unwrap gives the reason.
func (e *ImageError) Unwrap() error { return e.Err }

// maxReported bounds how many images one error names.
const maxReported = 10

// Check looks at every image without reading all of it: existence, size,
// digest, and whether it is of this rank, job, run and sequence. A restart does
// this before it starts anything; the data's sums are checked as it is read.
func (s *Snapshot) Check() error { return s.each(nil, s.checkImage) }

// Verify is Check and reads all of every image. progress, which may be nil, is
// called with the bytes done so far, one call at a time. The error is made of
// *ImageError.
func (s *Snapshot) Verify(progress func(done, total int64)) error {
	return s.each(progress, func(im Image) error {
		if err := s.checkImage(im); err != nil {
			return err
		}
		_, err := image.Verify(filepath.Join(s.Dir, im.File))
		return err
	})
}

// each calls f for all images, several at a time, and gathers the errors in the
// order of the ranks.
func (s *Snapshot) each(progress func(done, total int64), f func(Image) error) error {
	errs := make([]error, len(s.Schema.Images))
	total := s.Bytes()
	var mu sync.Mutex
	var done int64
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(errs)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				im := s.Schema.Images[i]
				if err := f(im); err != nil {
					errs[i] = &ImageError{im.Rank, filepath.Join(s.Dir, im.File), err}
				}
				mu.Lock()
				done += im.Size
				if progress != nil {
					progress(done, total)
				}
				mu.Unlock()
			}
		}()
	}
	for i := range errs {
		next <- i
	}
	close(next)
	wg.Wait()
	return gather(errs)
}

func gather(errs []error) error {
	var bad []error
	for _, err := range errs {
		if err != nil {
			bad = append(bad, err)
		}
	}
	if n := len(bad); n > maxReported {
		bad = append(bad[:maxReported:maxReported], fmt.Errorf("and %d more images", n-maxReported))
	}
	return errors.Join(bad...)
}

func (s *Snapshot) checkImage(im Image) error {
	path := filepath.Join(s.Dir, im.File)
	if err := checkFile(path, im); err != nil {
		return err
	}
	r, err := image.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Digest() != im.Digest {
		return fmt.Errorf("%w: digest %s, the schema says %s", ErrImage, r.Digest(), im.Digest)
	}
	m := r.Meta()
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
