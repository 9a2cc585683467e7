package owned

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// level is a level of a path: a descriptor that only names it, and what it is.
type level struct {
	fd   int
	path string
	st   unix.Stat_t
}

// maxLinks bounds the links of a path, as the kernel does.
const maxLinks = 40

// walk goes down a path, level by level, each by the descriptor of the one above. It follows links of this user's and root's. each, if not nil,
// is asked about every folder on the way but the last level. The caller closes the descriptor.
func walk(path string, each func(*level) error) (at level, err error) {
	fail := func(err error) (level, error) {
		unix.Close(at.fd)
		if _, ok := err.(unix.Errno); ok {
			err = &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return level{fd: -1}, err
	}
	if at, err = begin(path); err != nil {
		return at, err
	}
	links := 0
	for rest := elements(path); len(rest) > 0; {
		if each != nil {
			if err := each(&at); err != nil {
				return fail(err)
			}
		}
		next := level{path: filepath.Join(at.path, rest[0])}
		if next.fd, err = unix.Openat(at.fd, rest[0], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return fail(err)
		}
		if err = unix.Fstat(next.fd, &next.st); err != nil {
			unix.Close(next.fd)
			return fail(err)
		}
		if next.st.Mode&unix.S_IFMT == unix.S_IFLNK && kernels(at.fd) {
			if err := next.jump(&at, rest[0]); err != nil {
				return fail(err)
			}
		}
		rest = rest[1:]
		if next.st.Mode&unix.S_IFMT != unix.S_IFLNK {
			unix.Close(at.fd)
			at = next
			continue
		}
		target, err := follow(&next)
		unix.Close(next.fd)
		if links++; err == nil && links > maxLinks {
			err = unix.ELOOP
		}
		if err != nil {
			return fail(err)
		}
		if filepath.IsAbs(target) {
			unix.Close(at.fd)
			if at, err = begin("/"); err != nil {
				return at, err
			}
		}
		rest = slices.Concat(elements(target), rest)
	}
	return at, nil
}

// kernels reports whether links in a folder are the kernel's, such as /proc/self/fd/1, which may lead to what has no path.
func kernels(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// jump follows such a link.
func (l *level) jump(at *level, name string) (err error) {
	unix.Close(l.fd)
	if l.fd, err = unix.Openat(at.fd, name, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err = unix.Fstat(l.fd, &l.st); err != nil {
		unix.Close(l.fd)
	}
	return err
}

// begin opens where a path begins: the root, or this process's working folder.
func begin(path string) (at level, err error) {
	at.path = "."
	if filepath.IsAbs(path) {
		at.path = "/"
	}
	if path == "" {
		err = unix.ENOENT
	}
	if err == nil {
		at.fd, err = unix.Open(at.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		if err = unix.Fstat(at.fd, &at.st); err != nil {
			unix.Close(at.fd)
		}
	}
	if err != nil {
		return level{fd: -1}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return at, nil
}

// elements are the names in a path. Those that lead up stay: where they lead, descriptors know.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// follow reads a link, if it is to be followed.
func follow(link *level) (target string, err error) {
	if err := check(link.path, &link.st); err != nil {
		return "", err
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(link.fd, "", buf[:])
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:max(n, 0)]), err
}

// Settled says why others can make a path mean something else: a level of it belongs to another user, or is in a folder in which others may rename
// it. In a folder like /tmp, where users can rename only what they own, nobody can. What is not there yet is not looked at.
func Settled(path string) error {
	at, err := walk(path, func(l *level) error { return steady(l) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at.fd)
	return steady(&at)
}

// steady says why entries of a folder may be renamed by others than their owners.
func steady(l *level) error {
	st := l.st
	if st.Mode&unix.S_ISVTX != 0 {
		st.Mode &^= 0o022
	}
	if l.path == "/" || unknownOwner(&st) {
		return nil // nobody here can change what it is
	}
	return check(l.path, &st)
}
