package parcel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Piece is the name under which a parcel is sealed.
const piece = "parcel"

// WriteFile writes the parcel of a snapshot to a file, sealed with opt.KeyFile if that is not empty. The file is whole and durable, or
// not there; one of this name is replaced.
func WriteFile(path string, s *snapshot.Snapshot, opt Options) (Report, error) {
	st, err := single(path, opt.KeyFile)
	if err != nil {
		return Report{}, err
	}
	w, err := st.Create(context.Background(), "", piece, store.Options{NoDirect: true})
	if err != nil {
		return Report{}, err
	}
	to := &stream{w: w}
	r, err := Write(to, s, opt)
	if err != nil {
		w.Abort()
		return r, err
	}
	return r, w.Commit(to.off)
}

// ImportFile is Import of a file. A sealed one is opened with opt.KeyFile, and its images are sealed with that where they
// lie from now on. Errors: also sealed.ErrKey, sealed.ErrSealed.
func ImportFile(c *snapshot.Catalogue, path string, opt Options) (*snapshot.Snapshot, error) {
	open := owned.Open
	if opt.Trust {
		open = owned.OpenTrusted
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := importFile(c, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), opt) // the file that was looked at, whatever the path means by now
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return s, err
}

func importFile(c *snapshot.Catalogue, path string, opt Options) (*snapshot.Snapshot, error) {
	is, err := IsSealed(path)
	if err != nil {
		return nil, err
	}
	if is && opt.KeyFile == "" {
		return nil, fmt.Errorf("%w: it is sealed, and -ckpt-key names no key file", sealed.ErrKey)
	}
	key := opt.KeyFile
	if !is {
		key = "" // the file is none, its images will be
	}
	st, err := single(path, key)
	if err != nil {
		return nil, err
	}
	r, err := st.Open(context.Background(), "", piece)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Import(c, io.NewSectionReader(r, 0, r.Size()), opt)
}

// IsSealed reports whether a file is a sealed parcel.
func IsSealed(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, len("gorunSE"))
	if _, err := io.ReadFull(f, head); err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return false, err
	}
	return bytes.Equal(head, []byte("gorunSE")), nil
}

// stream writes a piece in order.
type stream struct {
	w   io.WriterAt
	off int64
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.w.WriteAt(p, s.off)
	s.off += int64(n)
	return n, err
}

// single is a store that is one file, whatever the piece is called.
func single(path, keyFile string) (store.Store, error) {
	one := oneFile{store.OpenDir("."), path}
	if keyFile == "" {
		return one, nil
	}
	return sealed.Wrap(one, keyFile)
}

type oneFile struct {
	*store.Dir
	path string
}

func (o oneFile) Create(_ context.Context, _, _ string, opt store.Options) (store.Writer, error) {
	return store.CreateFile(o.path, opt, true)
}

func (o oneFile) Open(context.Context, string, string) (store.Reader, error) {
	return store.OpenFile(o.path)
}
