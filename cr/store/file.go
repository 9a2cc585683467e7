package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PartSuffix ends the names of files that are being written, or whose writer was killed.
const PartSuffix = ".part"

// PartFile is a Writer of a file. Until Commit the file is called by its path with a random part and PartSuffix
// added; its mode is 0600.
//
// Where the file system allows it, the file is open past the page cache (O_DIRECT). That takes no processor time
// from a computing program, and no memory for cached pages. Then what is written, its offset and its memory are
// multiples of a page: a caller asks Direct before each write. LeaveDirect is the way out if a file system takes
// the flag and refuses the write.
type PartFile struct {
	f          *os.File
	path, part string
	direct     atomic.Bool
	folder     bool // Commit makes the name durable
	passing    bool // see Options
	closed     bool
}

// CreateFile begins the file path. With folder, Commit also makes its name durable.
func CreateFile(path string, opt Options, folder bool) (*PartFile, error) {
	var tag [4]byte
	rand.Read(tag[:])
	w := &PartFile{path: path, part: path + "." + hex.EncodeToString(tag[:]) + PartSuffix, folder: folder, passing: opt.Passing}
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL | unix.O_NOFOLLOW
	var err error
	if !opt.NoDirect && !opt.Passing {
		if w.f, err = os.OpenFile(w.part, flags|unix.O_DIRECT, 0o600); err == nil {
			w.direct.Store(true)
			return w, nil
		}
		// Some file systems create the file and then refuse the flag.
		if pe, ok := err.(*os.PathError); !ok || pe.Err != unix.EINVAL {
			return nil, err
		}
		os.Remove(w.part)
	}
	if w.f, err = os.OpenFile(w.part, flags, 0o600); err != nil {
		return nil, err
	}
	return w, nil
}

// File is the open file.
func (w *PartFile) File() *os.File { return w.f }

// Direct reports whether writes pass the page cache by.
func (w *PartFile) Direct() bool { return w.direct.Load() }

// LeaveDirect goes on through the page cache.
func (w *PartFile) LeaveDirect() error {
	w.direct.Store(false)
	flags, err := unix.FcntlInt(w.f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(w.f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	return err
}

// WriteAt writes p at off.
func (w *PartFile) WriteAt(p []byte, off int64) (int, error) { return w.f.WriteAt(p, off) }

// Commit cuts the file to size, waits until it is on the disk (unless it is Passing) and renames it.
func (w *PartFile) Commit(size int64) error {
	if w.closed {
		return fmt.Errorf("%s: %w", w.path, ErrClosed)
	}
	w.closed = true
	err := w.f.Truncate(size)
	if err == nil && !w.passing {
		err = w.f.Sync()
	}
	if e := w.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(w.part, w.path)
	}
	if err != nil {
		os.Remove(w.part)
		return err
	}
	if w.folder {
		if err := SyncFolder(filepath.Dir(w.path)); err != nil {
			os.Remove(w.path)
			return err
		}
	}
	return nil
}

// Abort removes the file. After Commit it does nothing.
func (w *PartFile) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.f.Close()
	if err := os.Remove(w.part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// OpenFile opens the regular file path for reading.
func OpenFile(path string) (Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // no pipe is waited for
	if err != nil {
		return nil, err
	}
	return readerOf(f)
}

// readerOf reads an open file.
func readerOf(f *os.File) (Reader, error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", f.Name(), ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &fileReader{f, st.Size()}, nil
}

// ErrNotRegular says that something else is where a piece ought to be.
var ErrNotRegular = errors.New("it is not a regular file")

type fileReader struct {
	f    *os.File
	size int64
}

func (r *fileReader) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, off) }
func (r *fileReader) Close() error                            { return r.f.Close() }
func (r *fileReader) Size() int64                             { return r.size }
func (r *fileReader) File() *os.File                          { return r.f }

// SyncFolder makes names in a folder durable. File systems that cannot sync a folder say EINVAL and need none.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
