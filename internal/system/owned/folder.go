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
	f     *os.File
	path  string
	trust bool
}

// OpenFolder opens a folder, by a path whose other levels may be anybody's.
func OpenFolder(path string) (*Folder, error) {
	f, err := open(path, func(fd int, st *unix.Stat_t) error { return isFolder(path, st, check(path, st)) })
	if err != nil {
		return nil, err
	}
	return &Folder{f: f, path: path}, nil
}

// isFolder says why something is no folder, else it returns err.
func isFolder(path string, st *unix.Stat_t, err error) error {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s: %w: no folder", path, ErrKind)
	}
	return err
}

// File is the folder's descriptor, to be locked, for example. It is the Folder's.
func (d *Folder) File() *os.File { return d.f }

// Close closes the folder.
func (d *Folder) Close() error { return d.f.Close() }

// at opens an entry to name it, if it may be opened. is says why it is of the wrong kind, else it returns its error.
func (d *Folder) at(name string, is func(path string, st *unix.Stat_t, err error) error) (fd int, path string, err error) {
	path = filepath.Join(d.path, name)
	if !single(name) {
		return -1, path, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	fd, err = unix.Openat(int(d.f.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, path, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if !d.trust {
			err = check(path, &st)
		}
		err = is(path, &st, err)
	}
	if err != nil {
		unix.Close(fd)
		return -1, path, err
	}
	return fd, path, nil
}

// Open opens a regular file in the folder for reading, if nobody else could have written it.
func (d *Folder) Open(name string) (*os.File, error) {
	fd, path, err := d.at(name, regular)
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
	fd, path, err := d.at(name, isFolder)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := reopen(fd, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &Folder{f, path, d.trust}, nil
}

// Size is the size of an entry that is a regular file.
func (d *Folder) Size(name string) (int64, error) {
	fd, _, err := d.at(name, regular)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Size, err
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

// Mkdir makes a folder in the folder.
func (d *Folder) Mkdir(name string) error {
	return d.change(name, func(r *os.Root) error { return r.Mkdir(name, 0o700) })
}

// Sync makes the names in the folder durable. File systems that cannot sync a folder say EINVAL and need none.
func (d *Folder) Sync() error {
	if err := d.f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// OpenFile opens a regular file in the folder in another way, such as to write to it or to make it. It does not wait for a pipe.
func (d *Folder) OpenFile(name string, how int, perm uint32) (*os.File, error) {
	path := filepath.Join(d.path, name)
	if !single(name) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	fd, err := unix.Openat(int(d.f.Fd()), name, how|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return opened(fd, path)
}

// single reports whether a name is one element of a path.
func single(name string) bool {
	return name == filepath.Base(name) && name != "." && name != ".." && name != "/"
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

// RemoveFolder removes a folder of this user's own, with all that is in it, from one that may be anybody's, such as /tmp. It is no error if there is
// none.
func RemoveFolder(path string) error {
	above, err := Below(filepath.Dir(path), false)
	if err != nil {
		return err
	}
	defer above.Close()
	d, err := above.Folder(filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d.Close()
	return above.RemoveAll(filepath.Base(path))
}

// Remove removes a file or an empty folder that lies in a folder of this user's own.
func Remove(path string) error {
	d, err := OpenFolder(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Remove(filepath.Base(path))
}

// Below opens a folder below another one, which may be anybody's. The levels from there on, single names, are to be this user's own, unless trust
// says that they may be anybody's too.
func Below(root string, trust bool, names ...string) (*Folder, error) {
	f, err := place(root)
	if err != nil {
		return nil, err
	}
	at := &Folder{f, root, trust}
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

// place opens a folder that may be anybody's.
func place(path string) (*os.File, error) {
	return open(path, func(_ int, st *unix.Stat_t) error { return isFolder(path, st, nil) })
}

// Folders lists the folders in a folder that may be anybody's, sorted: those of this user, and those of others with their owners.
func Folders(path string) (own []string, others map[string]int, err error) {
	f, err := place(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	others = map[string]int{}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue // removed meanwhile, or no folder
		}
		if int(st.Uid) == os.Geteuid() {
			own = append(own, name)
		} else {
			others[name] = int(st.Uid)
		}
	}
	return own, others, nil
}
