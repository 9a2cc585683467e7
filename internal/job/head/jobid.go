package head

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// writeJobID puts text into -jobid-file, whole or not at all. The file is empty from the start of
// gorun until all ranks are up. So a reader that waits for the id never takes that of the job
// before. A symbolic link of this user's stays one; a pipe or a device is written to. Links and pipes that
// another user has put there are refused.
func (h *head) writeJobID(text string) error {
	name := h.opt.JobIDFile
	if name == "" {
		return nil
	}
	if err := putJobID(name, text); err != nil {
		return fmt.Errorf("-jobid-file: %w", err)
	}
	return nil
}

func putJobID(name, text string) error {
	fd, err := owned.OpenLinked(name, unix.O_PATH, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return replace(name, text)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	link := "/proc/self/fd/" + strconv.Itoa(fd)
	real, err := os.Readlink(link)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return replace(real, text)
	case st.Mode&unix.S_IFMT == unix.S_IFIFO && filepath.IsAbs(real) && !owned.Mine(int(st.Uid)):
		return &owned.Error{Path: name, UID: int(st.Uid), Mode: st.Mode} // it may never be read
	}
	return tell(link, text)
}

// tell writes to a pipe or the like, which has no old content to remove.
func tell(name, text string) error {
	if text == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// replace puts a new file in the place of name. Its temporary name cannot be guessed by others.
func replace(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
