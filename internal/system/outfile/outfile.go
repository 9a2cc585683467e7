// Package outfile is what restarts do with files that a program was writing to, whichever kind of image they go on
// from: nobody else writes to a file meanwhile (Lock), what was written after the image is kept beside the file before
// it is cut off (KeepTail), and a program may go on in a copy (Copy). It decides nothing: the rules are those of
// whole.FilesPolicy.
package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// KeepTail copies the bytes from to end of the file path to a new file beside it, PATH.gorun-TAG-tail, which is on the
// disk when it returns. It returns the name of that file.
func KeepTail(path string, from, end int64, tag string) (kept string, err error) {
	var out *os.File
	for i := 1; ; i++ {
		kept = path + ".gorun-" + tag + "-tail"
		if i > 1 {
			kept += strconv.Itoa(i)
		}
		out, err = os.OpenFile(kept, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return kept, err
		}
	}
	defer func() {
		out.Close()
		if err != nil {
			os.Remove(kept)
		}
	}()
	if err := copyRange(out, path, from, end); err != nil {
		return kept, err
	}
	if err := out.Sync(); err != nil {
		return kept, err
	}
	return kept, syncFolder(filepath.Dir(path))
}

// syncFolder makes the names in a folder durable. Some file systems cannot, and some folders are for writing alone.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}

// CopyName is the name of the copy of a file that a restart goes on in.
func CopyName(path, tag string) string { return path + ".gorun-" + tag }

// Copy makes the copy of a file, of its first size bytes. Processes that write to one file share the copy. Made tells that it is there,
// even after an error.
func Copy(path, tag string, size int64, mode fs.FileMode) (made bool, err error) {
	out, err := os.OpenFile(CopyName(path, tag), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return false, err
	}
	defer out.Close()
	// The lock is held while copying only.
	if err := unix.Flock(int(out.Fd()), unix.LOCK_EX); err != nil {
		return false, err
	}
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return true, err
	}
	return true, copyRange(out, path, have, size)
}

// copyRange appends the bytes from to end of the file path to out.
func copyRange(out *os.File, path string, from, end int64) error {
	if from >= end {
		return nil
	}
	in, err := owned.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(out, in, end-from)
	return err
}
