package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Inotify descriptors are made with all others, and the watches last: what the restore does to files, as
// cutting them, is no event for the program.

// watches is an inotify descriptor that is to have its watches.
type watches struct {
	fd    int
	file  *state.File
	table map[int]int // descriptors here of the process, by number there
}

// needs tells a descriptor that is needed to the end.
func (w *watches) needs(fd int) bool {
	return fd == w.fd || slices.ContainsFunc(w.file.Watched, func(f state.Watched) bool { return f.Of != nil && w.table[*f.Of] == fd })
}

// makeInotify makes a descriptor, and checks whether the watched files exist.
func (d *descriptors) makeInotify(f *state.File) (int, error) {
	for i := range f.Watched {
		if w := &f.Watched[i]; w.Of == nil {
			if err := d.checkWatched(w); err != nil {
				return -1, err
			}
		}
	}
	fd, err := d.keep(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))
	if err == nil {
		d.watches = append(d.watches, watches{fd, f, d.here})
	} else if errors.Is(err, unix.EMFILE) {
		err = fmt.Errorf("%w (raise fs.inotify.max_user_instances, or the limit of open files)", err)
	}
	return fd, err
}

// checkWatched checks whether a watched file exists. As of open files, it may be another of the
// name, which is told.
func (d *descriptors) checkWatched(w *state.Watched) error {
	var st unix.Stat_t
	switch err := unix.Lstat(w.Path, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return fileError(w.Path, "put it back, or restart from another snapshot", "it is watched by inotify, and missing: %w", err)
	case err != nil:
		return fileError(w.Path, "make it accessible as it was", "it is watched by inotify: %w", err)
	case st.Mode&unix.S_IFMT != w.Mode&unix.S_IFMT:
		return fileError(w.Path, "put back what was there", "it is watched by inotify, and has been replaced by something of another kind")
	}
	note := w.Path + " is another file than the one of the same name that inotify watched: it is watched instead"
	if st.Ino != w.Inode && !slices.Contains(d.notes, note) {
		d.notes = append(d.notes, note)
	}
	return nil
}

// finish does the last steps, when all processes exist and none runs yet.
func (d *descriptors) finish() error {
	if err := d.cutAll(); err != nil {
		return err
	}
	if err := d.rewriteAll(); err != nil {
		return err
	}
	for i := range d.watches {
		if err := d.watches[i].make(); err != nil {
			return err
		}
	}
	return nil
}

// make makes the watches with the numbers that they had. The kernel counts up, and so watches of nothing
// are made and removed until one is reached.
func (w *watches) make() error {
	if len(w.file.Watched) == 0 {
		return nil
	}
	nothing, err := unix.MemfdCreate("watched", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(nothing)
	next := 1
	for i := range w.file.Watched {
		f := &w.file.Watched[i]
		for ; next < f.Number; next++ {
			n, err := unix.InotifyAddWatch(w.fd, here(nothing), unix.IN_DELETE_SELF)
			if err == nil && n == next {
				_, err = unix.InotifyRmWatch(w.fd, uint32(n))
			}
			if err != nil || n != next {
				return fmt.Errorf("inotify descriptor %d: watch %d was to have the number %d: %w", w.file.FD, n, next, errors.Join(err, ErrFiles))
			}
		}
		if err := w.add(f); err != nil {
			return err
		}
		next++
	}
	return w.settle()
}

// here names what is open as a descriptor of this process.
func here(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// add makes one watch.
func (w *watches) add(f *state.Watched) error {
	name, mask := f.Path, f.Mask|unix.IN_DONT_FOLLOW
	if f.Of != nil {
		name, mask = here(w.table[*f.Of]), f.Mask
	}
	n, err := unix.InotifyAddWatch(w.fd, name, mask)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fileError(f.Path, "raise fs.inotify.max_user_watches", "watching it by inotify: %w", err)
	case err != nil:
		return fileError(f.Path, "make it accessible as it was", "watching it by inotify: %w", err)
	case n != f.Number:
		return fileError(f.Path, "put back what was there", "watching it by inotify: it is the same file as another that is watched")
	}
	return nil
}

// settle takes the events of removed watches, and checks whether the expected ones are there.
func (w *watches) settle() error {
	p := make([]byte, 64<<10)
	left, err := unix.IoctlGetInt(w.fd, unix.TIOCINQ) // what comes later comes of what others do
	for err == nil && left > 0 {
		var n int
		n, err = unix.Read(w.fd, p)
		left -= n
	}
	if err != nil {
		return fmt.Errorf("inotify descriptor %d: %w", w.file.FD, err)
	}
	in, err := proc.Parsed(os.Getpid(), "fdinfo/"+strconv.Itoa(w.fd), proc.ParseFDInfo)
	if err != nil {
		return err
	}
	for i := range w.file.Watched {
		f := &w.file.Watched[i]
		if !slices.ContainsFunc(in.Files, func(o proc.Inotify) bool { return o.Number == f.Number }) {
			return fileError(f.Path, "restart once more", "it was removed or changed while the watch was made")
		}
	}
	return nil
}
