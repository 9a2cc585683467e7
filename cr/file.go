package cr

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/system/outfile"
)

// ErrFile is wrapped where a File cannot be had, or cannot be had again as it was.
var ErrFile = errors.New("cr: a file cannot be had as it was")

// File opens the named regular file as os.OpenFile does, and makes its place part of every portable image of this rank:
// its size, and the offset at which the program reads or writes. Call it before the first Point, in the same way in
// every run. The file is the caller's, who closes it.
//
//	log, err := cr.File("residuals.csv", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
//
// After a restart File opens the file again, and neither creates nor truncates it. Within the first Point it is brought
// to where it was: it is cut to the size that it had, and stands at its offset. So what was written after the snapshot
// is taken back, and so is what the restarted program writes before its first Point, such as the head of a table. Until
// then a file that is only read stands at its beginning, as standard input does: a program that runs from the top reads
// again what it reads before its first Point. A file that may be written stands at its end.
//
// The rules are those of images of whole processes (-files of gorun restart). refuse: what is cut off is kept in
// FILE.gorun-...-tail; a file that is missing, shorter than it was, or another one is an error (ErrFile). A copy is as
// good as the file: what tells is whether the beginning is the same, and what is before the end that it had. copy: the
// program goes on in a copy, FILE.gorun-..., of the length that the file had. keep: it goes on in the file as it is now.
//
// A file that may be written belongs to this rank alone: another rank or job of this user and machine that opens it
// by File gets an error until this one is closed. What an image says of a file is on the disk when the image is. A
// buffer of the program's own (bufio) is not seen: flush it in OnCheckpoint. A file that the program has closed comes
// back as it was at the Point, at its end. What is written in the middle of a file is not taken back.
//
// A checkpoint fails, by the file's name, if the file was removed, or another one has its name. Errors of File: those of
// os.OpenFile; ErrFile; a name that was given before; the errors of Register.
func File(name string, flag int, perm fs.FileMode) (*os.File, error) {
	r, err := own()
	if err != nil {
		return nil, err
	}
	return r.File(name, flag, perm)
}

// filePlace is what an image says of a File. It is a variable of the image, named "file NAME".
type filePlace struct {
	Suffix string // of the name of the file that was open: that of a copy, or ""
	Size   int64  // bytes
	Offset int64
	Inode  uint64
	Born   int64  // Unix time in ns, which tells it from a later file with that inode; 0: the file system does not say
	Ends   uint64 // hash of its first and last bytes, see ends; 0: they could not be read
	Known  bool   // there was such a file; false: File had failed
}

// file is one File.
type file struct {
	name   string // as given
	path   string // absolute, of the file that is open
	f      *os.File
	writes bool
	place  filePlace     // registered
	back   bool          // restarted: it is to be brought to its place at the first Point
	grown  int64         // restarted: its size when it was opened again
	lock   *outfile.Lock // nil: it has none
}

// File is the package-level File for one rank.
func (r *Registry) File(name string, flag int, perm fs.FileMode) (*os.File, error) {
	x, err := r.fileNamed(name)
	if err != nil {
		return nil, err
	}
	x.writes = flag&(os.O_WRONLY|os.O_RDWR) != 0
	if x.place.Known && r.j.Restarted() {
		if err = r.reopen(x, flag, perm); err != nil {
			r.j.FailRestart(err)
		}
	} else {
		err = r.openNew(x, flag, perm)
	}
	if err != nil {
		x.close()
		return nil, r.named(err)
	}
	return x.f, nil
}

// fileNamed registers a file's place, which is known already if an earlier call has failed.
func (r *Registry) fileNamed(name string) (*file, error) {
	r.mu.Lock()
	i := slices.IndexFunc(r.files, func(x *file) bool { return x.name == name })
	if i >= 0 {
		x := r.files[i]
		r.mu.Unlock()
		if x.f != nil {
			return nil, r.named(fmt.Errorf("%w: %s: File was called for it before", ErrFile, name))
		}
		return x, nil
	}
	r.mu.Unlock()
	x := &file{name: name}
	var err error
	if x.path, err = filepath.Abs(name); err != nil {
		return nil, r.named(err)
	}
	if err := r.Register(self.FilePrefix+name, &x.place); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = append(r.files, x)
	return x, nil
}

func (x *file) close() {
	if x.f != nil {
		x.f.Close()
		x.f = nil
	}
	if x.lock != nil {
		x.lock.Give()
		x.lock = nil
	}
}

// fileErr says which file cannot be had, why, and what to do.
func (x *file) fileErr(remedy, why string, args ...any) error {
	return fmt.Errorf("%w: %s: %w (%s)", ErrFile, x.path, fmt.Errorf(why, args...), remedy)
}

// openNew opens the file for the first time. It is truncated when it is ours.
func (r *Registry) openNew(x *file, flag int, perm fs.FileMode) error {
	if err := r.openAs(x, os.OpenFile, flag&^os.O_TRUNC, perm); err != nil {
		return err
	}
	if err := r.lock(x, "end that one, or give each rank a file of its own"); err != nil {
		return err
	}
	if flag&os.O_TRUNC != 0 && x.writes {
		if err := x.f.Truncate(0); err != nil {
			return err
		}
	}
	return x.note()
}

func (r *Registry) openAs(x *file, open func(string, int, fs.FileMode) (*os.File, error), flag int, perm fs.FileMode) (err error) {
	// Nonblocking, so that a pipe of that name cannot hold us.
	if x.f, err = open(x.path, flag|unix.O_NONBLOCK, perm); err != nil {
		return err
	}
	st, err := x.f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = x.fileErr("use os.OpenFile and OnRestart for it", "it is no regular file")
	}
	return err
}

// lock makes a file that is written ours.
func (r *Registry) lock(x *file, remedy string) error {
	if !x.writes {
		return nil
	}
	l, err := outfile.Take(int(x.f.Fd()))
	if errors.Is(err, outfile.ErrLocked) {
		return x.fileErr(remedy, "another rank or job of this user writes to it: %w", err)
	}
	if err != nil {
		return x.fileErr("use os.OpenFile and OnRestart where files cannot be locked", "locking it: %w", err)
	}
	f := x.f
	l.Until(func() bool { return isClosed(f) || r.j.Over() }, nil)
	x.lock = l
	return nil
}

func isClosed(f *os.File) bool {
	_, err := f.Seek(0, io.SeekCurrent)
	return errors.Is(err, os.ErrClosed)
}

// note takes down where the file stands.
func (x *file) note() error {
	named, err := os.Stat(x.path)
	if err != nil {
		return x.fileErr("keep it, under its name", "it is gone: %w", err)
	}
	at, err := x.f.Seek(0, io.SeekCurrent)
	closed := errors.Is(err, os.ErrClosed)
	if err != nil && !closed {
		return x.fileErr("close it", "%w", err)
	}
	st := named
	if !closed {
		if st, err = x.f.Stat(); err != nil {
			return x.fileErr("close it", "%w", err)
		}
		if !os.SameFile(st, named) {
			return x.fileErr("close it before it is renamed or replaced", "another file has its name now")
		}
	} else {
		at = st.Size()
	}
	x.place.Known, x.place.Size, x.place.Offset = true, st.Size(), at
	if x.place.Inode, x.place.Born, err = identity(x.path); err != nil {
		return x.fileErr("keep it, under its name", "%w", err)
	}
	x.place.Ends = ends(x.path, st.Size())
	return nil
}

// identity tells a file from others of its file system.
func identity(path string) (inode uint64, born int64, err error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return 0, 0, err
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return st.Ino, born, nil
}

// noteFiles takes down where all files stand. The program is at a Point.
func (r *Registry) noteFiles() error {
	for _, x := range r.opened() {
		if err := x.note(); err != nil {
			return err
		}
	}
	return nil
}

// opened are the files that File has opened.
func (r *Registry) opened() []*file {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.files), func(x *file) bool { return x.f == nil })
}
