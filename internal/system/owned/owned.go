// Package owned opens, lists and removes what lies where other users may write, such as /tmp or a folder of a project. Its one rule: nothing
// that another user could have written is read, followed, swept, executed or waited for.
//
// What is opened must belong to this user or to root, and nobody else may be able to change it: neither all users nor a group, except the
// group that this user has for himself. Each level of a path is opened by a descriptor of the one above, and is never followed by name: a
// link is followed if this user or root has made it. A pipe is not waited for. What is opened stays what was checked, whatever is renamed meanwhile.
//
// The folders above may be anybody's. Their owners can hide something of this user's or put something else of his into its place, and nothing of
// their own. Where not even that may happen, Settled tells whether a path can mean something else to others.
package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrForeign says that another user could have written something. The error is an *Error.
var ErrForeign = errors.New("another user could have written it")

// Error says whose something is, or who may change it.
type Error struct {
	Path string
	UID  int    // its owner
	Mode uint32 // as of stat
}

// Is says that it is ErrForeign.
func (e *Error) Is(target error) bool { return target == ErrForeign }

func (e *Error) Error() string {
	switch {
	case Mine(e.UID):
		return fmt.Sprintf("%s: others may change it (mode %04o): chmod go-w it", e.Path, e.Mode&0o7777)
	case e.Mode&unix.S_IFMT == unix.S_IFLNK:
		return fmt.Sprintf("%s is a link of another user, %s", e.Path, User(e.UID))
	}
	return fmt.Sprintf("%s belongs to another user, %s", e.Path, User(e.UID))
}

// User is a user for people: name and number.
func User(uid int) string {
	name := ""
	fields("/etc/passwd", func(f []string) { // os/user would bring C into programs that need none
		if len(f) > 2 && f[2] == strconv.Itoa(uid) {
			name = f[0]
		}
	})
	if name == "" {
		return fmt.Sprintf("uid %d", uid)
	}
	return fmt.Sprintf("%s (uid %d)", name, uid)
}

// Mine reports whether an owner is this user or root, who may write everything anyway.
func Mine(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// check says why something is not this user's own.
func check(path string, st *unix.Stat_t) error {
	if Mine(int(st.Uid)) && (st.Mode&0o022 == 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK || onlyMyGroup(st)) {
		return nil
	}
	return &Error{Path: path, UID: int(st.Uid), Mode: st.Mode}
}

// Open opens a regular file for reading that nobody else could have written.
func Open(path string) (*os.File, error) {
	return open(path, func(fd int, st *unix.Stat_t) error { return regular(path, st, check(path, st)) })
}

// OpenTrusted is Open for a file that may be anybody's. It does not wait for a pipe either.
func OpenTrusted(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return opened(fd, path)
}

// opened is the file of a descriptor, which it closes if that is of no regular file.
func opened(fd int, path string) (*os.File, error) {
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil {
		err = regular(path, &st, nil)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ErrKind says that something is no regular file, or no folder.
var ErrKind = errors.New("it is of another kind than expected")

// regular says why something is no regular file, else it returns err.
func regular(path string, st *unix.Stat_t, err error) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: %w: no regular file", path, ErrKind)
	}
	return err
}

// ReadFile reads a file that nobody else could have written.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// OpenLinked opens a file that may be anybody's as open(2) does, but follows no link of another user, who may have planted it. Without O_CREAT it
// is opened as it is now, of whatever kind; but a pipe of another user, who may never come, is not waited for: without O_NONBLOCK it is refused.
func OpenLinked(path string, how int, perm uint32) (fd int, err error) {
	at, err := walk(path, nil)
	if errors.Is(err, fs.ErrNotExist) && how&unix.O_CREAT != 0 {
		if at, err = walk(filepath.Dir(path), nil); err != nil {
			return -1, err
		}
		defer unix.Close(at.fd)
		if fd, err = unix.Openat(at.fd, filepath.Base(path), how|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm); err != nil {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(at.fd)
	if how&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL {
		return -1, &fs.PathError{Op: "open", Path: path, Err: unix.EEXIST}
	}
	if at.st.Mode&unix.S_IFMT == unix.S_IFIFO && how&(unix.O_NONBLOCK|unix.O_PATH) == 0 && !Mine(int(at.st.Uid)) {
		return -1, &Error{Path: path, UID: int(at.st.Uid), Mode: at.st.Mode}
	}
	again := descriptor(at.fd)
	if how&unix.O_NOFOLLOW != 0 {
		again = path // the flag stays with the descriptor
	}
	if fd, err = unix.Open(again, how&^unix.O_CREAT|unix.O_CLOEXEC, 0); err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != at.st.Dev || st.Ino != at.st.Ino) {
		err = unix.ESTALE
	}
	if err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// OpenFile is OpenLinked as a file.
func OpenFile(path string, how int, perm fs.FileMode) (*os.File, error) {
	fd, err := OpenLinked(path, how, uint32(perm.Perm()))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// open opens for reading what a path leads to, if it passes.
func open(path string, passes func(fd int, st *unix.Stat_t) error) (*os.File, error) {
	at, err := walk(path, nil)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at.fd)
	if err := passes(at.fd, &at.st); err != nil {
		return nil, err
	}
	return reopen(at.fd, path, unix.O_RDONLY)
}

// reopen opens for use what a descriptor only names. It is the same, whatever its path means by now.
func reopen(fd int, path string, how int) (*os.File, error) {
	now, err := unix.Open(descriptor(fd), how|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(now), path), nil
}

// Descriptor is a path of the file itself that was opened, whatever its own path leads to by now. It is of use until the file is closed.
func Descriptor(f *os.File) string { return descriptor(int(f.Fd())) }

// descriptor is a path of what a descriptor names.
func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
