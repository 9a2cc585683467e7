package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sessions of one user differ. A session of ssh or a desktop has a runtime folder
// ($XDG_RUNTIME_DIR, usually /run/user/UID), which is removed when the last of them is closed. One
// of cron, su, a service or a batch system has none, or that of another user. So a job is recorded
// in the first usable one of several places, and looked for in all of them.

// Places are the folders that may hold control folders, in the order in which a job of this session takes one.
func Places() []string {
	var all []string
	in := func(parent, name string, must bool) {
		if !filepath.IsAbs(parent) {
			return
		}
		if st, err := os.Stat(parent); must && (err != nil || !st.IsDir()) { // as after the end of the session
			return
		}
		if p := filepath.Join(parent, name); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	uid := strconv.Itoa(os.Getuid())
	in(os.Getenv("GORUN_DIR"), "gorun", false)
	in(os.Getenv("XDG_RUNTIME_DIR"), "gorun", true)
	in("/run/user/"+uid, "gorun", true)
	for _, dir := range []string{"/tmp", os.TempDir(), "/dev/shm", "/var/tmp"} {
		in(dir, "gorun-"+uid, true)
	}
	return all
}

// errForeign is wrapped by errors about a place that other users may write to. Nothing in it is
// trusted, and its lock is not waited for.
var errForeign = errors.New("it must belong to you with mode 0700")

// errHeld says that another process holds the lock and keeps it.
var errHeld = errors.New("another gorun has its lock: if it was stopped, let it go on or end it")

// lockWithin is how long a lock is waited for. A gorun holds one for milliseconds.
const lockWithin = 10 * time.Second

// openOwn opens a folder of this user that no other user may enter. The check is made by
// descriptor, before a lock on it is taken.
func openOwn(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EACCES {
		return nil, fmt.Errorf("%s: %w: %w", path, errForeign, err)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, err
	}
	if int(st.Uid) != os.Getuid() || st.Mode&0o077 != 0 {
		f.Close()
		return nil, fmt.Errorf("%s: %w, it has owner %d and mode %#o", path, errForeign, st.Uid, st.Mode&0o777)
	}
	return f, nil
}

// lock takes the lock on an open folder; wait limits how long it tries.
func lock(f *os.File, wait time.Duration) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case err == unix.EINTR:
		case err != unix.EWOULDBLOCK:
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		case time.Since(began) >= wait:
			return fmt.Errorf("%s: %w", f.Name(), errHeld)
		}
	}
}

// lockDir opens a folder and locks it. The lock ends when the file is closed.
func lockDir(path string, wait time.Duration) (*os.File, error) {
	f, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	if err := lock(f, wait); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockRoot locks a place, making it first if create is set.
func lockRoot(root string, create bool) (*os.File, error) {
	for {
		if create {
			// The parent exists, except one that only GORUN_DIR names.
			if err := os.MkdirAll(root, 0o700); err != nil {
				return nil, err
			}
		}
		f, err := lockDir(root, lockWithin)
		if errors.Is(err, fs.ErrNotExist) && create {
			continue // the place was removed in between, with its last job
		}
		if err != nil {
			return nil, err
		}
		if same(f, root) {
			return f, nil
		}
		f.Close() // removed while we waited for the lock
	}
}

// same reports whether an open folder still is where its path says.
func same(f *os.File, path string) bool {
	var st, now unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && unix.Lstat(path, &now) == nil && now.Ino == st.Ino && now.Dev == st.Dev
}

// within is the path of an entry of an open folder. It stays valid if the folder is renamed or
// removed, and is short, as a socket's path must be.
func within(f *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), name) }

// NewFolder makes and locks the control folder of a job.
func NewFolder(root, name string) (dir string, held *os.File, err error) {
	r, err := lockRoot(root, true)
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	if err := os.Mkdir(within(r, name), 0o700); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s: %w", root, errors.Unwrap(err)), removeEmpty(root))
	}
	dir = filepath.Join(root, name)
	if held, err = lockDir(dir, lockWithin); err != nil {
		os.Remove(dir)
		return "", nil, err
	}
	return dir, held, nil
}

// RemoveFolder removes a control folder and, if it was the last, the place.
// Removing a folder that is gone already is no error: several agents may do it.
func RemoveFolder(dir string) error {
	root := filepath.Dir(dir)
	r, err := lockRoot(root, false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) { // this user has nothing there any more
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.RemoveAll(within(r, filepath.Base(dir))); err != nil {
		return err
	}
	return removeEmpty(root)
}

// removeEmpty removes a place that holds nothing any more.
func removeEmpty(root string) error {
	if err := os.Remove(root); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
