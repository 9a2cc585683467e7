package capture

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Inotify: the kernel tells which files a descriptor watches by the numbers of their inodes. Their
// names are looked for before anything is stopped, see watched. Events that wait to be read cannot be
// copied without taking them from the program, and so there must be none.

// inotifyLink is what /proc calls an inotify descriptor.
const inotifyLink = "anon_inode:inotify"

// queueLimit bounds how long a program is waited for that has events to read.
const queueLimit = time.Second

// checkInotify looks for the names of what the process watches.
func (g *Target) checkInotify() error {
	fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	g.queues = nil
	for _, fd := range fds {
		if link, _ := os.Readlink(fdPath(g.PID, fd)); link != inotifyLink {
			continue
		}
		in, err := proc.Parsed(g.PID, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
		if err == nil {
			g.queues = append(g.queues, fd)
			err = g.lookForWatched(in.Files)
		}
		if _, still := os.Readlink(fdPath(g.PID, fd)); err != nil && still == nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// awaitQueues waits until the processes of the family have read their events.
func (g *Target) awaitQueues() error {
	since := time.Now()
	for _, m := range append([]*Target{g}, g.relatives()...) {
		for _, fd := range m.queues {
			for {
				err := m.checkQueue(fd)
				if !errors.Is(err, refusal.ErrRefused) {
					break // also if it was closed meanwhile
				}
				if time.Since(since) > queueLimit {
					return m.named(err)
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
	}
	return nil
}

// checkQueue refuses an inotify descriptor with events that wait to be read.
func (g *Target) checkQueue(fd int) error {
	here, err := g.Getfd(fd)
	if err != nil {
		return err
	}
	defer unix.Close(here)
	n, err := unix.IoctlGetInt(here, unix.TIOCINQ)
	if err != nil || n == 0 {
		return err
	}
	return refusal.New("let the program read them, as it would lose them", "descriptor %d: inotify with events that wait to be read", fd)
}

// recordQueues looks at the queues before anything is opened here that may be watched. What
// comes in from now on comes after the image.
func (st *stand) recordQueues(*recorder) error {
	for _, fd := range st.g.queues {
		if link, _ := os.Readlink(fdPath(st.g.PID, fd)); link != inotifyLink {
			continue
		}
		if err := st.g.checkQueue(fd); err != nil {
			return fmt.Errorf("%w: %w", trace.ErrBusy, err)
		}
	}
	return nil
}

// recordInotify records what a descriptor watches.
func (st *stand) recordInotify(f *state.File, in *proc.FDInfo) error {
	if !slices.Contains(st.g.queues, f.FD) { // made since the process was looked at
		st.g.queues = append(st.g.queues, f.FD)
		return fmt.Errorf("%w: a new descriptor for inotify", trace.ErrBusy)
	}
	if !f.First() {
		return nil
	}
	if len(in.Files) > 0 && !masksWhole() {
		return refusal.New("take a newer kernel", "inotify, of which this kernel does not tell whether a watch ends with its first event")
	}
	if err := st.g.lookForWatched(in.Files); err != nil {
		return err
	}
	for _, w := range in.Files {
		if w.Number > state.MaxWatched {
			return refusal.New("make a new descriptor for inotify now and then", "inotify that has watched %d files", w.Number)
		}
		at := st.g.watched[w.File]
		note := state.Watched{Number: w.Number, Mask: w.Mask, Path: at.path}
		if at.path == "" {
			note.Of = &at.fd
		} else {
			var s unix.Stat_t
			if err := unix.Lstat(at.path, &s); err != nil {
				return fmt.Errorf("%w: %s: %w", trace.ErrBusy, at.path, err)
			}
			note.Inode, note.Mode = s.Ino, s.Mode
		}
		f.Watched = append(f.Watched, note)
	}
	slices.SortFunc(f.Watched, func(a, b state.Watched) int { return cmp.Compare(a.Number, b.Number) })
	return nil
}

// masksWhole asks whether the kernel tells all of the mask of a watch, which those before 5.19 do not.
var masksWhole = sync.OnceValue(func() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, "/", unix.IN_DELETE_SELF|unix.IN_ONESHOT); err != nil {
		return false
	}
	in, err := proc.Parsed(os.Getpid(), "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
	return err == nil && len(in.Files) == 1 && in.Files[0].Mask == unix.IN_DELETE_SELF|unix.IN_ONESHOT
})
