// Package flush copies images from one store to another, while the program that wrote them runs.
//
//	from                         to
//	  rank-00000.img  ---------->  there already, and good: left
//	  rank-00001.img  -- paced -->  written, whole and durable, read again and checked
//
// It runs where the images are, one at a time, so it takes little memory (step bytes) whatever
// their size. It first checks which pieces are whole at the target, so an interrupted copy goes on
// where it was. A damaged piece is written again.
//
// # What a copy is worth
//
// Bytes are compared with the digest of the image in the schema: at the source before they are
// read, and at the target after they are written, with the sum of every block. A store that can
// check the bytes where they lie does so itself (Checker). So pieces that Pieces has copied without
// an error are as good as those that the ranks have written.
package flush

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// Piece is an image to be copied.
type Piece struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	Digest string `json:"digest"`
}

// Set is a set in a store.
type Set struct {
	Store store.Store
	Name  string
}

// From is a set that is only read.
type From struct {
	Store store.Reading
	Name  string
}

// Options say how it is copied.
type Options struct {
	Rate     int64       // bytes a second, over all pieces of a call; 0: as fast as it goes
	Progress func(int64) // is called with the number of bytes done; may be nil
}

// Checker is implemented by stores that check images where they lie, see snapshot.Checker.
type Checker interface {
	Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error)
}

// step is how many bytes are read and written at once.
const step = 1 << 20

// Pieces copies images. The target's set is begun if needed, and committed if the target is spread
// over the nodes. The error names the pieces that were not copied, or the first ones of many; all
// others were copied. A piece that cannot be read does not keep others from being copied. No
// partial file is left.
func Pieces(ctx context.Context, from From, to Set, pieces []Piece, opt Options) error {
	if err := to.Store.Begin(ctx, to.Name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	p := &paced{rate: opt.Rate}
	var errs []error
	for _, im := range pieces {
		err := piece(ctx, from, to, im, p, opt.Progress)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", im.Name, err))
		if ctx.Err() != nil || !errors.As(err, new(*sourceError)) {
			break
		}
	}
	if !to.Store.Shared() { // otherwise the caller that has begun the set commits it
		errs = append(errs, to.Store.Commit(ctx, to.Name))
	}
	return Few(errs)
}

// paced is the pace of one call.
type paced struct {
	Pace
	rate int64
}

// sourceError says that a piece cannot be read at the source.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// Few joins errors, or the first ones if there are many.
func Few(errs []error) error {
	const most = 3
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if n := len(errs); n > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", n-most))
	}
	return errors.Join(errs...)
}

func piece(ctx context.Context, from From, to Set, im Piece, p *paced, progress func(int64)) error {
	tell := func(n int64) {
		if progress != nil {
			progress(n)
		}
	}
	if Check(ctx, to.Store, to.Name, im) == nil {
		tell(im.Size)
		return nil
	}
	r, err := from.Store.Open(ctx, from.Name, im.Name)
	if err != nil {
		return &sourceError{err}
	}
	defer r.Close()
	if r.Size() != im.Size {
		return &sourceError{fmt.Errorf("%w: %d bytes, the schema says %d", image.ErrCorrupt, r.Size(), im.Size)}
	}
	w, err := to.Store.Create(ctx, to.Name, im.Name, store.Options{NoDirect: true, Size: im.Size})
	if err != nil {
		return err
	}
	if err := stream(ctx, w, r, p, tell); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(im.Size); err != nil {
		return err
	}
	if err := Check(ctx, to.Store, to.Name, im); err != nil {
		return &sourceError{fmt.Errorf("what was copied is not the image: %w", err)}
	}
	return nil
}

// stream copies all of a piece, in order.
func stream(ctx context.Context, w io.WriterAt, r store.Reader, p *paced, tell func(int64)) error {
	buf := make([]byte, min(step, max(r.Size(), 1)))
	for off := int64(0); off < r.Size(); {
		b := buf[:min(int64(len(buf)), r.Size()-off)]
		if n, err := r.ReadAt(b, off); n < len(b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return &sourceError{err}
		}
		if _, err := w.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
		tell(int64(len(b)))
		if err := p.Wait(ctx, int64(len(b)), p.rate); err != nil {
			return err
		}
	}
	return nil
}

// Check reads a piece where it lies and compares its digest.
func Check(ctx context.Context, st store.Reading, set string, im Piece) error {
	size, digest, err := look(ctx, st, set, im.Name)
	switch {
	case err != nil:
		return err
	case size != im.Size:
		return fmt.Errorf("%w: %d bytes, the schema says %d", image.ErrCorrupt, size, im.Size)
	case digest != im.Digest:
		return fmt.Errorf("%w: digest %s, the schema says %s", image.ErrCorrupt, digest, im.Digest)
	}
	return nil
}

func look(ctx context.Context, st store.Reading, set, name string) (size int64, digest string, err error) {
	if c, ok := st.(Checker); ok {
		size, digest, _, err = c.Check(ctx, set, name, true)
		return size, digest, err
	}
	r, err := image.Piece{Context: ctx, Store: st, Set: set, Name: name}.Open()
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	return r.Size(), r.Digest(), r.Verify()
}
