package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
)

// Proof says why bytes are not those that were wanted, nil if they are.
type Proof func(r io.ReaderAt, size int64) error

// Image is the Proof of an image with this digest: all blocks are read, and their sums compared.
func Image(digest string) Proof {
	return func(r io.ReaderAt, size int64) error {
		return image.Prove(r, size, "fetched image", digest)
	}
}

// SHA256 is the Proof of bytes with this sum, in hex.
func SHA256(sum string) Proof {
	return func(r io.ReaderAt, size int64) error {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(r, 0, size)); err != nil {
			return err
		}
		if have := hex.EncodeToString(h.Sum(nil)); have != sum {
			return fmt.Errorf("%w: SHA-256 %s instead of %s", image.ErrCorrupt, have, sum)
		}
		return nil
	}
}

// Fetched tells what a Fetch has done.
type Fetched struct {
	From  string // the node that had it; this one if it was here; Computed
	Bytes int64  // that were copied
}

// Fetch makes sure that this node has a piece that passes the proof. A copy here that does not pass
// is replaced. What no node has good is computed, if it can be. progress, if not nil, is called
// with the number of bytes that have come.
func (s *Store) Fetch(ctx context.Context, set, piece string, proof Proof, progress func(int64)) (Fetched, error) {
	if !s.local() {
		return Fetched{}, errNoPart
	}
	if err := checkNames(set, piece); err != nil {
		return Fetched{}, err
	}
	var errs []error
	switch err := s.have(ctx, set, piece, proof); {
	case err == nil:
		return Fetched{From: s.Node}, nil
	case !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, fmt.Errorf("%s: %w", s.Node, err))
	}
	have, err := s.others(ctx, set, piece)
	if err != nil {
		if errs = append(errs, err); s.Lost == nil {
			return Fetched{}, errors.Join(errs...)
		}
	}
	if err := s.Here.Begin(ctx, set); err != nil && !errors.Is(err, fs.ErrExist) {
		return Fetched{}, err
	}
	for _, p := range have {
		n, err := s.copy(ctx, p.Files, set, piece, proof, progress)
		if err == nil {
			return Fetched{p.Node, n}, s.Here.Commit(ctx, set)
		}
		errs = append(errs, fmt.Errorf("from %s: %w", p.Node, err))
		if ctx.Err() != nil {
			return Fetched{}, fmt.Errorf("%s/%s: %w", set, piece, errors.Join(errs...))
		}
	}
	var n int64
	err = s.lost(errors.Join(errs...), func(l Lost) (err error) {
		n, err = s.copy(ctx, l, set, piece, proof, progress)
		return err
	})
	if err != nil {
		return Fetched{}, fmt.Errorf("%s/%s: %w", set, piece, err)
	}
	return Fetched{Computed, n}, s.Here.Commit(ctx, set)
}

// opener is where a piece is copied from.
type opener interface {
	Open(ctx context.Context, set, piece string) (store.Reader, error)
}

// Computed is where a piece comes from that no node had.
const Computed = "parity"

// others returns the other nodes that have a piece.
func (s *Store) others(ctx context.Context, set, piece string) ([]Peer, error) {
	if f, ok := s.Peers.(Finder); ok {
		return f.Find(ctx, set, piece)
	}
	others := *s
	others.Here = nil
	have, _, err := others.holders(ctx, set, piece)
	return have, err
}

// have checks the copy of this node.
func (s *Store) have(ctx context.Context, set, piece string, proof Proof) error {
	r, err := s.Here.Open(ctx, set, piece)
	if err != nil {
		return err
	}
	defer r.Close()
	return proof(r, r.Size())
}

// copy copies a piece of another node and gives it its name if it is the right one.
func (s *Store) copy(ctx context.Context, from opener, set, piece string, proof Proof, progress func(int64)) (n int64, err error) {
	r, err := from.Open(ctx, set, piece)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	w, err := s.Here.Create(ctx, set, piece, store.Options{NoDirect: true, Size: r.Size()}) // it is read at once
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	buf := make([]byte, copyStep)
	for n < r.Size() {
		p := buf[:min(copyStep, r.Size()-n)]
		if k, err := r.ReadAt(p, n); k < len(p) {
			return n, shortRead(err)
		}
		if _, err := w.WriteAt(p, n); err != nil {
			return n, err
		}
		n += int64(len(p))
		if progress != nil {
			progress(int64(len(p)))
		}
		if err := ctx.Err(); err != nil {
			return n, context.Cause(ctx)
		}
	}
	if err := proof(w.(store.Filer).File(), n); err != nil {
		return n, err
	}
	return n, w.Commit(n)
}

// copyStep is how much is read at once: several reads of a remote store.
const copyStep = 4 * remote.Window

func shortRead(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
