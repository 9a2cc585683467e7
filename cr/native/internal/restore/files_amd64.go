//go:build linux

package restore

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// descriptors are the open files of the process to be, and of those that descend from it: made here,
// inherited by it, at their old numbers if they are its own.
type descriptors struct {
	reopener
	content func(kind, name string) ([]byte, error)
	given   [3]int // what becomes standard input, output and error
	oob     int

	here     map[int]int         // of the process that is looked at, by number there
	tables   map[int]map[int]int // all of these, by the process's id
	sealed   map[uint64]bool
	own      []int               // to be closed here
	pipes    map[uint64]int      // by inode: a descriptor of the pipe
	deleted  map[uint64]int      // by inode: the file made again
	named    map[string]bool     // paths of what was open
	memory   map[string]bool     // paths of memory of shm_open
	unmapped map[uint64]string   // by inode: paths of files that no process may have mapped
	rewrites []written           // files that are changed in place, to get their content
	watches  []watches           // of inotify, to be made last
	ends     map[uint64]int      // by inode: the other end of a pair, made with the first
	inodes   map[uint64][]string // the sections where the content of a pipe or file may be
}

// open makes all descriptors of the family. After an error nothing is open.
func (d *descriptors) open(s *state.State) (err error) {
	d.tables, d.pipes, d.deleted = make(map[int]map[int]int), make(map[uint64]int), make(map[uint64]int)
	d.ends, d.sealed = make(map[uint64]int), make(map[uint64]bool)
	d.inodes, d.locked = make(map[uint64][]string), make(map[[2]uint64]bool)
	d.named, d.memory, d.unmapped = make(map[string]bool), make(map[string]bool), make(map[uint64]string)
	defer func() {
		if err != nil {
			d.Close()
			d.unlock()
		}
	}()
	all := s.All()
	for _, m := range all {
		d.findContents(m)
	}
	for _, m := range all {
		if err := d.openAll(m); err != nil {
			return err
		}
	}
	d.here = d.tables[s.PID]
	for _, m := range all {
		if err := d.refillSockets(m); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := d.makeShared(m); err != nil {
			return err
		}
	}
	return d.refuseMapped()
}

// findContents records where the content of pipes and of deleted files may be, and which names are
// of open files, and of memory.
func (d *descriptors) findContents(s *state.State) {
	for i := range s.Regions { // others there are files like any
		if r := &s.Regions[i]; r.Written && strings.HasPrefix(r.Path, state.PosixMemory) {
			d.memory[r.Path] = true
		}
	}
	files := slices.Clone(s.Files)
	slices.SortFunc(files, func(a, b state.File) int { return cmp.Compare(a.FD, b.FD) })
	for i := range files {
		f := &files[i]
		section := s.Section(strconv.Itoa(f.FD))
		switch {
		case f.Kind == state.FilePipe:
			d.inodes[f.Pipe] = append(d.inodes[f.Pipe], section)
		case f.Deleted:
			d.inodes[f.Inode] = append(d.inodes[f.Inode], section)
		case f.Kind == state.FileRegular:
			d.named[f.Path] = true
		}
	}
}

// openAll makes the descriptors of one process.
func (d *descriptors) openAll(s *state.State) error {
	d.here = make(map[int]int)
	d.tables[s.PID] = d.here
	files := slices.Clone(s.Files)
	slices.SortFunc(files, func(a, b state.File) int { return cmp.Compare(a.FD, b.FD) })
	for i := range files {
		f := &files[i]
		if f.From != nil {
			d.here[f.FD] = d.tables[f.From.ID][f.From.FD]
			continue
		}
		if f.Same != f.FD && f.Kind != state.FileStdio {
			d.here[f.FD] = d.here[f.Same] // made before: it is the lowest
			continue
		}
		fd, err := -1, error(nil)
		if f.Kind == state.FilePidfd || f.Kind == state.FilePty || ownProcFile(s, f) != "" {
			fd, err = d.keep(placeholder())
		} else {
			fd, err = d.make(f)
		}
		if err != nil {
			if errors.Is(err, unix.EMFILE) && !errors.Is(err, ErrFiles) {
				err = fmt.Errorf("%w (%s)", err, moreFiles)
			}
			if !errors.Is(err, ErrFiles) {
				err = fmt.Errorf("%w: descriptor %d (%s): %w", ErrFiles, f.FD, f.Kind, err)
			}
			return err
		}
		d.here[f.FD] = fd
	}
	return nil
}

// Close closes what was opened here; the process keeps what it has inherited.
func (d *descriptors) Close() {
	for _, fd := range d.own {
		unix.Close(fd)
	}
	d.own = nil
}

// shed closes what is not needed any more when the process has inherited all.
func (d *descriptors) shed() {
	d.own = slices.DeleteFunc(d.own, func(fd int) bool {
		cuts := func(c cut) bool { return c.fd == fd }
		needed := slices.ContainsFunc(d.cuts, cuts) || slices.ContainsFunc(d.common, cuts) ||
			slices.ContainsFunc(d.rewrites, func(w written) bool { return w.fd == fd }) ||
			slices.ContainsFunc(d.watches, func(w watches) bool { return w.needs(fd) })
		if !needed {
			unix.Close(fd)
		}
		return !needed
	})
}

// keep notes a descriptor for Close.
func (d *descriptors) keep(fd int, err error) (int, error) {
	if err == nil {
		d.own = append(d.own, fd)
	}
	return fd, err
}

// make makes one descriptor.
func (d *descriptors) make(f *state.File) (int, error) {
	var fd int
	var err error
	switch f.Kind {
	case state.FileRegular:
		if f.Deleted && f.Mode&unix.S_IFMT == unix.S_IFDIR {
			return d.makeGoneFolder(f)
		}
		if f.Deleted {
			return d.makeDeleted(f)
		}
		if f.Written {
			return d.makeWritten(f)
		}
		return d.keep(d.reopener.open(f))
	case state.FileStdio:
		fd, err = d.standard(f.Same)
	case state.FileOOB:
		if fd = d.oob; fd < 0 {
			err = errors.New("no stream to the agent was given")
		}
	case state.FileSocket:
		fd, err = d.keep(d.makeSocket(f))
	case state.FilePipe:
		fd, err = d.makePipe(f)
	case state.FileEvent:
		fd, err = d.keep(makeEvent(f))
	case state.FileTimer:
		fd, err = d.keep(makeTimer(f))
	case state.FileSignal:
		fd, err = d.keep(makeSignal(f))
	case state.FileInotify:
		fd, err = d.makeInotify(f)
	case state.FileEpoll:
		return d.keep(unix.EpollCreate1(unix.EPOLL_CLOEXEC)) // has no flags
	default:
		err = errors.New("unknown kind")
	}
	if err != nil {
		return -1, err
	}
	// Where others may share the stream, only this bit is the program's matter: it
	// found it when it started, and reads and writes accordingly.
	now, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, err
	}
	return fd, setFlags(fd, now&^unix.O_NONBLOCK|f.Flags&unix.O_NONBLOCK)
}

// standard gives one of the launcher's streams; a program can have several
// descriptors of it, or have it only under another number.
func (d *descriptors) standard(stream int) (int, error) {
	if fd := d.given[stream]; fd >= 0 {
		return fd, nil
	}
	return d.keep(unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0))
}

// deadSocket makes what the program's own connections come back as: a socket on
// which everything fails at once (ENOTCONN, EPIPE, EINVAL for accept) and that
// wakes its pollers. It does not read as a regular end of the data.
func deadSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	return fd, err
}

// reopen makes another open file description of what fd refers to.
func reopen(fd, flags int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), openFlags(flags)|unix.O_NONBLOCK, 0)
}

// makePipe makes the end of a pipe, and with the first end the pipe with what
// it held. Where only one end is in the process, the other is closed.
func (d *descriptors) makePipe(f *state.File) (int, error) {
	pipe, ok := d.pipes[f.Pipe]
	if !ok {
		var ends [2]int
		if err := newPipe(&ends, f); err != nil {
			return -1, err
		}
		d.own = append(d.own, ends[0], ends[1])
		if f.Room > 0 { // without privilege it may have less here, if that is enough
			unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, f.Room)
		}
		if err := d.refill(ends[1], d.inodes[f.Pipe]); err != nil {
			return -1, err
		}
		pipe = ends[0]
		d.pipes[f.Pipe] = pipe
	}
	return d.keep(reopen(pipe, f.Flags&^unix.O_DIRECT))
}

// newPipe makes a pipe. One with a name is that of the name.
func newPipe(ends *[2]int, f *state.File) (err error) {
	if f.Path == "" || f.Deleted {
		return unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
	}
	const how = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK
	if ends[0], err = owned.OpenLinked(f.Path, how, 0); err != nil {
		return fileError(f.Path, "make the named pipe again (mkfifo), accessible as it was", "%w", err)
	}
	var st unix.Stat_t
	waits := 0
	if err = unix.Fstat(ends[0], &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		waits, err = unix.IoctlGetInt(ends[0], unix.TIOCINQ)
	}
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFIFO || waits > 0) {
		err = errors.New("another program uses it, or it is none any more")
	}
	if err == nil {
		ends[1], err = reopen(ends[0], unix.O_RDWR)
	}
	if err != nil {
		unix.Close(ends[0])
		return fileError(f.Path, "end who uses it", "%w", err)
	}
	return nil
}

// refill writes what a pipe held; it is in one of the sections.
func (d *descriptors) refill(w int, sections []string) error {
	content, err := d.contentOf(state.KindPipe, sections)
	if errors.Is(err, errNoContent) || len(content) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	const usual = 64 << 10
	if room, err := unix.FcntlInt(uintptr(w), unix.F_GETPIPE_SZ, 0); len(content) > usual && (err != nil || room < len(content)) {
		if _, err := unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, 1<<bits.Len(uint(len(content)-1))); err != nil {
			return fmt.Errorf("room for %d bytes in it: %w", len(content), err)
		}
	}
	n, err := unix.Write(w, content)
	if err == nil && n < len(content) {
		err = fmt.Errorf("it took %d of %d bytes", n, len(content))
	}
	return err
}

// contentOf finds the section that was written under one of the names.
func (d *descriptors) contentOf(kind string, names []string) ([]byte, error) {
	for _, name := range names {
		p, err := d.content(kind, name)
		if !errors.Is(err, errNoContent) {
			return p, err
		}
	}
	return nil, errNoContent
}

// makeDeleted makes a file without a name that holds what the deleted one held.
func (d *descriptors) makeDeleted(f *state.File) (int, error) {
	const remedy = "make room, or restart from another snapshot"
	made, ok := d.deleted[f.Inode]
	if !ok {
		content, err := d.contentOf(state.KindFile, d.inodes[f.Inode])
		if err != nil {
			return -1, fileError(f.Path, remedy, "it was deleted: %w", err)
		}
		if made, err = d.keep(nameless(f.Path)); err != nil {
			return -1, fileError(f.Path, remedy, "making it again without a name: %w", err)
		}
		d.deleted[f.Inode] = made
		if err := writeAll(made, content); err != nil {
			return -1, fileError(f.Path, remedy, "making it again without a name: %w", err)
		}
	}
	fd, err := d.keep(reopen(made, f.Flags&^unix.O_NOFOLLOW))
	if err != nil {
		return -1, fileError(f.Path, remedy, "%w", err)
	}
	if f.Mode != 0 {
		unix.Fchmod(made, f.Mode&0o7777) // useless except to observers
	}
	return fd, d.place(fd, f, false)
}

// nameless makes a file without a name, best where the old one was. Memory is made with the name that it had.
func nameless(path string) (int, error) {
	if name, ok := strings.CutPrefix(path, "/memfd:"); ok {
		return unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	dir := filepath.Dir(path)
	for _, dir := range []string{dir, os.TempDir()} {
		if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
			return fd, nil
		}
	}
	return unix.MemfdCreate("deleted", unix.MFD_CLOEXEC)
}

func makeEvent(f *state.File) (int, error) {
	flags := unix.EFD_CLOEXEC | unix.EFD_NONBLOCK
	if f.Sema {
		flags |= unix.EFD_SEMAPHORE
	}
	fd, err := unix.Eventfd(0, flags)
	if err != nil || f.Count == 0 {
		return fd, err
	}
	p := unsafe.Slice((*byte)(unsafe.Pointer(&f.Count)), 8)
	if _, err := unix.Write(fd, p); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("count %d: %w", f.Count, err)
	}
	return fd, nil
}

// makeSignal makes a signalfd: whoever reads it gets signals of his own.
func makeSignal(f *state.File) (int, error) {
	fd, _, e := unix.Syscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&f.Signals)), 8, unix.SFD_CLOEXEC, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// setTicks is TFD_IOC_SET_TICKS, which not every kernel has.
const setTicks = 0x40085400

// makeTimer makes a timer that goes on where it stood: the kernel tells the time
// that is left, whatever way it was set.
func makeTimer(f *state.File) (int, error) {
	fd, err := unix.TimerfdCreate(f.Timer.Clock, unix.TFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(f.Timer.Value), Interval: unix.NsecToTimespec(f.Timer.Interval)}
	if err := unix.TimerfdSettime(fd, 0, &spec, nil); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if f.Count > 0 {
		ticks := f.Count
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setTicks, uintptr(unsafe.Pointer(&ticks))); e != 0 {
			// Without the count at least one expiry is seen.
			spec.Value = unix.NsecToTimespec(1)
			if err := unix.TimerfdSettime(fd, 0, &spec, nil); err != nil {
				unix.Close(fd)
				return -1, err
			}
		}
	}
	return fd, nil
}

// ownProcFile returns the name under which the process finds the file again.
func ownProcFile(s *state.State, f *state.File) string {
	if f.Kind != state.FileRegular || f.Deleted {
		return ""
	}
	return proc.OwnName(s.PID, f.Path)
}
