package restore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/outfile"
)

// Files that the program writes to by shared mappings get the content again that they had, like memory. What another one
// of the name holds then is kept beside it.

// written is one, to get its content when the process goes on.
type written struct {
	path string
	fd   int
	data []byte // nil: it stays as it is
}

const writtenRemedy = "make it accessible as it was, or restart from another snapshot"

// openWritten opens the file that a region maps, or makes it anew.
func (d *descriptors) openWritten(r *state.Region, data []byte) (int, error) {
	path := r.Path
	if d.policy == whole.FilesCopy && !strings.HasPrefix(path, state.PosixMemory) {
		path = outfile.CopyName(path, d.tag)
	}
	const how = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW
	fd, err := d.keep(unix.Open(path, how, 0))
	if errors.Is(err, fs.ErrNotExist) && d.policy != whole.FilesKeep {
		if fd, err = d.keep(unix.Open(path, how|unix.O_CREAT|unix.O_EXCL, r.Mode)); err == nil {
			d.copies = append(d.copies, path)
			err = unix.Fchmod(fd, r.Mode)
		}
	}
	if err != nil {
		return -1, fileError(path, writtenRemedy, "it was mapped to be written to: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, fileError(path, writtenRemedy, "%w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, fileError(path, "put the file back that was there", "it was mapped and has been replaced by something of another kind")
	}
	if d.policy == whole.FilesKeep {
		if st.Size < int64(len(data)) {
			return -1, fileError(path, "put back what it held", "it has %d bytes, and is mapped with %d", st.Size, len(data))
		}
		return fd, nil
	}
	if d.policy == whole.FilesRefuse {
		if err := errors.Join(mappedBy(path, &st), d.take(fd, path, &st)); err != nil {
			return -1, err
		}
	}
	d.written = append(d.written, written{path, fd, data})
	return fd, nil
}

// untilUnmapped is how long a process may have a file mapped that was killed a moment ago, such as the copy of one that was being imaged.
const untilUnmapped = 2 * time.Second

// mappedBy refuses a file that a process has mapped, as far as this user can see: it would find other content there all of a sudden.
func mappedBy(path string, st *unix.Stat_t) error {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		pid, err := mapper(path, st)
		if err != nil || pid == 0 {
			return err
		}
		if time.Since(begin) > untilUnmapped {
			return fileError(path, "end that one, or use -files copy or -files keep", "process %d has it mapped", pid)
		}
	}
}

// mapper finds a process that has a file mapped, 0 if there is none.
func mapper(path string, st *unix.Stat_t) (pid int, err error) {
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		maps, _ := proc.Parsed(pid, "maps", proc.ParseMaps) // of another user, or just ending
		if slices.ContainsFunc(maps, func(m proc.Mapping) bool { return m.Shared && m.Inode == st.Ino && m.Path == path }) {
			return pid, nil
		}
	}
	return 0, nil
}

// rewrite gives a file its content again. What it holds else is kept first; the name of that is returned.
func (w *written) rewrite(tag string) (kept string, err error) {
	const remedy = "make room or rights for it, or use -files copy|keep"
	now, err := os.ReadFile(here(w.fd))
	if err != nil {
		return "", fileError(w.path, remedy, "%w", err)
	}
	if bytes.Equal(now, w.data) {
		return "", nil
	}
	if len(now) > 0 && !strings.HasPrefix(w.path, state.PosixMemory) {
		if kept, err = outfile.KeepTail(w.path, 0, int64(len(now)), tag); err != nil {
			return "", fileError(w.path, remedy, "keeping what it holds: %w", err)
		}
	}
	if err = unix.Ftruncate(w.fd, int64(len(w.data))); err == nil {
		err = writeAll(w.fd, w.data)
	}
	if err != nil {
		err = fileError(w.path, remedy, "writing to it (what it held is in %s): %w", kept, err)
	}
	return kept, err
}
