package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// lockFile is the name of the lock within a job's and a snapshot's folder.
const lockFile = store.LockFile

// flock takes a lock on the file path, which it creates if need be. how is unix.LOCK_EX or LOCK_SH, with
// LOCK_NB. busy says that another holds it. The lock lives as long as the file is open. Go opens files
// close-on-exec, so no child inherits it.
func flock(path string, how int) (f *os.File, busy bool, err error) {
	d, err := owned.OpenFolder(filepath.Dir(path))
	if err != nil {
		return nil, false, explain(err)
	}
	defer d.Close()
	return flockIn(d, filepath.Base(path), how)
}

// flockIn is flock for a file in an open folder.
func flockIn(d *owned.Folder, name string, how int) (f *os.File, busy bool, err error) {
	f, err = d.OpenFile(name, unix.O_RDWR|unix.O_CREAT, 0o600)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		f, err = d.OpenFile(name, unix.O_RDONLY, 0) // a lock may be taken on what can only be read
	}
	if err != nil {
		return nil, false, explain(err)
	}
	return flockFile(f, how)
}

func flockFile(f *os.File, how int) (_ *os.File, busy bool, err error) {
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return f, false, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK {
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// lockLimit is how long lockJob waits. Others have the lock for moments, or while they remove many
// images. One that stands still, such as a gorun on a node that hangs, has it for as long as it
// does: no process may wait for that.
const lockLimit = 2 * time.Minute

// lockJob keeps others from giving out numbers and sweeping in the job's folder.
func lockJob(dir string) (*os.File, error) { return lockWithin(dir, lockLimit) }

var errHeld = errors.New("another gorun has its lock")

// lockWithin is lockJob with another limit. A folder of another user, who may hold the lock without
// end, is refused.
func lockWithin(dir string, limit time.Duration) (*os.File, error) {
	const first, last = time.Millisecond, 50 * time.Millisecond
	d, err := owned.OpenFolder(dir)
	if err != nil {
		return nil, explain(err)
	}
	defer d.Close()
	began := time.Now()
	for pause := first; ; pause = min(2*pause, last) {
		f, busy, err := flockIn(d, lockFile, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil || !busy {
			return f, err
		}
		if time.Since(began) > limit {
			return nil, fmt.Errorf("%s: %w, for %v at least: if it stands still, let it go on or end it", dir, errHeld, limit)
		}
		time.Sleep(pause)
	}
}

// explain adds to an error of the system what can be done about it.
func explain(err error) error {
	remedy := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = "free space there, prune old snapshots or use another -ckpt-dir"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		remedy = "make the folder writable for this user or use another -ckpt-dir"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, remedy)
}
