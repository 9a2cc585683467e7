package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// lockFile is the name of the lock within a job's and a snapshot's folder.
const lockFile = store.LockFile

// flock takes a lock on the file path, which it creates if need be. how is unix.LOCK_EX or LOCK_SH, with
// LOCK_NB. busy says that another holds it. The lock lives as long as the file is open. Go opens files
// close-on-exec, so no child inherits it.
func flock(path string, how int) (f *os.File, busy bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		f, err = os.Open(path) // a lock may be taken on what can only be read
	}
	if err != nil {
		return nil, false, explain(err)
	}
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
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}

// lockJob keeps others from giving out numbers and sweeping in the job's folder.
func lockJob(dir string) (*os.File, error) {
	f, _, err := flock(filepath.Join(dir, lockFile), unix.LOCK_EX)
	return f, err
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
