package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Folder is an open folder of this user's own: nobody else could have put anything into it. It stays the same folder, whatever is renamed above it.
// Names of its entries are single elements; links among them are never followed.
type Folder struct {
	f    *os.File
	path string
}

// OpenFolder opens a folder, by a path whose other levels may be anybody's.
func OpenFolder(path string) (*Folder, error) {
	f, err := open(path, func(fd int, st *unix.Stat_t) error { return folder(path, st) })
	if err != nil {
		return nil, err
	}
	return &Folder{f, path}, nil
}

// folder says why something is no folder of this user's own.
func folder(path string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s: %w: no folder", path, ErrKind)
	}
	return check(path, st)
}

// Path is the path by which the folder was opened.
func (d *Folder) Path() string { return d.path }

// File is the folder's descriptor, to be locked, for example. It is the Folder's.
func (d *Folder) File() *os.File { return d.f }

// Close closes the folder.
func (d *Folder) Close() error { return d.f.Close() }

// at opens an entry to name it.
func (d *Folder) at(name string, passes func(path string, st *unix.Stat_t) error) (fd int, path string, err error) {
	path = filepath.Join(d.path, name)
	if name != filepath.Base(name) || name == "." || name == ".." || name == "/" {
		return -1, path, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	fd, err = unix.Openat(int(d.f.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, path, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = passes(path, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, path, err
	}
	return fd, path, nil
}

// Open opens a regular file in the folder for reading, if nobody else could have written it.
func (d *Folder) Open(name string) (*os.File, error) {
	fd, path, err := d.at(name, func(path string, st *unix.Stat_t) error { return regular(path, st, check(path, st)) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return reopen(fd, path, unix.O_RDONLY)
}

// ReadFile reads a file in the folder.
func (d *Folder) ReadFile(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Folder opens a folder in the folder, if it is this user's own too.
func (d *Folder) Folder(name string) (*Folder, error) {
	fd, path, err := d.at(name, folder)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := reopen(fd, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &Folder{f, path}, nil
}

// Down opens the folder to which single names lead down.
func (d *Folder) Down(names ...string) (*Folder, error) {
	at := &Folder{path: d.path}
	fd, err := unix.FcntlInt(d.f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	at.f = os.NewFile(uintptr(fd), d.path)
	for _, name := range names {
		next, err := at.Folder(name)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// Entries lists the folder, sorted by name.
func (d *Folder) Entries() ([]fs.DirEntry, error) {
	f, err := reopen(int(d.f.Fd()), d.path, unix.O_RDONLY|unix.O_DIRECTORY) // an offset of its own
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// RemoveAll removes an entry with all that is in it, and follows no link. It is no error if there is none.
func (d *Folder) RemoveAll(name string) error {
	return d.change(name, func(r *os.Root) error { return r.RemoveAll(name) })
}

// Remove removes a file or an empty folder.
func (d *Folder) Remove(name string) error {
	return d.change(name, func(r *os.Root) error { return r.Remove(name) })
}

// change does something to an entry by the folder's descriptor.
func (d *Folder) change(name string, do func(*os.Root) error) error {
	r, err := os.OpenRoot(descriptor(int(d.f.Fd())))
	if err == nil {
		defer r.Close()
		err = do(r)
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: filepath.Join(d.path, pe.Path), Err: pe.Err}
	}
	return err
}

// Sync makes the names in the folder durable. File systems that cannot sync a folder say EINVAL and need none.
func (d *Folder) Sync() error {
	if err := d.f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// MakeFolder opens a folder of this user's own, and makes it and those above it first if need be.
func MakeFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return OpenFolder(path)
}

// RemoveAll removes what lies in a folder of this user's own, with all that is in it. It is no error if nothing is there.
func RemoveAll(path string) error {
	d, err := OpenFolder(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return d.RemoveAll(filepath.Base(path))
}

// Folders lists the folders in a folder that may be anybody's: those of this user, by name, and how many each other user has.
func Folders(path string) (own []string, others map[int]int, err error) {
	f, err := open(path, func(_ int, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("%s: %w: no folder", path, ErrKind)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	others = map[int]int{}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue // removed meanwhile, or no folder
		}
		if int(st.Uid) == os.Geteuid() {
			own = append(own, name)
		} else {
			others[int(st.Uid)]++
		}
	}
	return own, others, nil
}
