package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/system/unquiet"
)

// maxContent bounds what is kept of one deleted file, which has to be read while
// the program stands still.
const maxContent = 64 << 20

// recordFiles records the descriptors of the stopped process, with the state that
// only the kernel has: offsets, counts, settings and sets, what lies in pipes and
// in files without a name. They are shared with the copy, so it has to be now.
func (st *stand) recordFiles(r *recorder) error {
	fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", st.g.PID))
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	slices.Sort(fds)
	firsts := map[descriptor]int{} // of descriptions that another process has, the lowest number here
	for _, fd := range fds {
		f, err := st.recordFile(fd, firsts)
		if err == nil {
			err = st.keepContent(r, &f)
		}
		if err == nil && written(&f) {
			r.holdForSync(st.g, fd)
		}
		if err != nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
		r.state.Files = append(r.state.Files, f)
	}
	return nil
}

// recordPipes looks at the named pipes of the family.
func (st *stand) recordPipes(r *recorder) error {
	if r.state.Kin != nil {
		return nil
	}
	var all []state.File
	for _, r := range st.family.records {
		all = append(all, r.state.Files...)
	}
	return checkFIFOs(all)
}

// recordFile describes one descriptor.
func (st *stand) recordFile(fd int, firsts map[descriptor]int) (state.File, error) {
	pid := st.g.PID
	f := state.File{FD: fd, Same: fd}
	link, err := os.Readlink(fdPath(pid, fd))
	if err != nil {
		return f, err
	}
	p, err := proc.Read(pid, "fdinfo/"+strconv.Itoa(fd))
	if err != nil {
		return f, err
	}
	in, err := proc.ParseFDInfo(p)
	if err != nil {
		return f, err
	}
	f.Flags = in.Flags
	id, stat := statFile(pid, fd)
	if stat != nil {
		f.Dev, f.Inode, f.Mode = id.dev, id.inode, stat.Mode
	}
	if err := st.g.classify(&f, link, stat); err != nil {
		return f, err
	}
	switch f.Kind {
	case state.FileRegular:
		f.Offset = in.Pos
	case state.FileEvent:
		f.Count, f.Sema = in.Count, in.Sema
	case state.FileTimer:
		f.Count, f.Timer = in.Count, in.Timer
		if f.Timer == nil {
			return f, refusal.New("use time.Timer", "a timerfd whose setting this kernel does not show")
		}
	case state.FileEpoll:
		f.Epoll = in.Watch
	case state.FileSignal:
		f.Signals = in.Mask
	}
	if f.Kind == state.FilePidfd {
		if f.Target = st.family.idOf(in.Target); f.Target == 0 {
			return f, refusePidfd(in.Target)
		}
	}
	if f.Kind != state.FileStdio {
		st.findSame(&f, firsts)
	}
	if f.Output() {
		f.Born = born(fdPath(pid, fd))
	}
	if f.Kind == state.FileInotify {
		if err := st.recordInotify(&f, &in); err != nil {
			return f, err
		}
	}
	return f, st.recordHeld(&f, &in)
}

// born is when a file was made, 0 if the file system does not say.
func born(path string) int64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// findSame records which descriptor has the same open file description, the first of the process
// and of the family.
func (st *stand) findSame(f *state.File, firsts map[descriptor]int) {
	first := st.family.known.first(st.g.PID, *f)
	if first.pid == st.g.PID {
		f.Same = first.fd
		return
	}
	if fd, ok := firsts[first]; ok {
		f.Same = fd
		return
	}
	firsts[first] = f.FD
	f.From = &state.Ref{ID: st.family.idOf(first.pid), FD: first.fd}
}

// idOf gives the id of one of the family, 0 of others.
func (f *family) idOf(pid int) int {
	for _, st := range f.stands {
		if st.g.PID == pid {
			return st.g.idOf(pid)
		}
	}
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	if err == nil && status.Ended && slices.ContainsFunc(f.ended, func(k state.Kin) bool { return k.ID == status.Inner }) {
		return status.Inner
	}
	return 0
}

// checkPidfd refuses one of a process that is none of the family.
func (g *Target) checkPidfd(fd int) error {
	in, err := proc.Parsed(g.PID, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
	if err != nil {
		return nil // it has just been closed
	}
	s, err := proc.Parsed(in.Target, "stat", procfs.ParseStat)
	if err == nil && (g.related(in.Target) || s.State == 'Z' && g.related(s.PPID)) {
		return nil
	}
	return refusePidfd(in.Target)
}

func refusePidfd(pid int) error {
	if pid <= 0 {
		return refusal.New(remedyFor("pidfd"), "a pidfd of a process that has ended and was waited for")
	}
	return refusal.New(remedyFor("pidfd"), "a pidfd of process %d, which is none of its own", pid)
}

// classify finds the kind of a descriptor by its name in /proc and its type.
func (g *Target) classify(f *state.File, link string, stat *unix.Stat_t) error {
	if f.FD == g.oob {
		f.Kind = state.FileOOB
		return nil
	}
	if i := g.given(f, link); i >= 0 {
		f.Kind, f.Path, f.Same = state.FileStdio, link, i
		return nil
	}
	switch {
	case strings.HasPrefix(link, "socket:["), strings.TrimSuffix(link, " (deleted)") == transportMemory:
		f.Kind = state.FileSocket
		return nil
	case ofAdapter(link) && g.ownAdapter():
		f.Kind = state.FileSocket
		return nil
	case strings.HasPrefix(link, "pipe:["):
		f.Kind, f.Pipe = state.FilePipe, f.Inode
		return nil
	case stat != nil && unquiet.Is(link, stat.Size):
		return refusal.New(unquiet.Remedy, "%s", unquiet.Why)
	case link == "anon_inode:[eventpoll]":
		f.Kind = state.FileEpoll
		return nil
	case link == "anon_inode:[eventfd]":
		f.Kind = state.FileEvent
		return nil
	case link == inotifyLink:
		f.Kind = state.FileInotify
		return nil
	case link == "anon_inode:[timerfd]":
		f.Kind = state.FileTimer
		return nil
	case link == "anon_inode:[signalfd]":
		f.Kind = state.FileSignal
		return nil
	case link == "anon_inode:[pidfd]", strings.HasPrefix(link, "pidfd:["):
		f.Kind = state.FilePidfd
		return nil
	case !strings.HasPrefix(link, "/") || stat == nil:
		return refusal.New(remedyFor(link), "%s", nameOf(link))
	}
	if err := checkProc(g.idOf(g.PID), link); err != nil {
		return err
	}
	if isQueue(g.PID, f.FD, link) {
		return refusal.New("close it while checkpoints are taken, or use pipes", "the POSIX message queue %s", link)
	}
	if is, err := isTerminal(f, stat); is {
		return err
	}
	return classifyPath(f, link, stat)
}

// adapterMark is the name of a memory file that package rpi/rdma/rxe has beside each adapter that it opens. Other users of adapters would be left with
// dead ones after a restart.
const adapterMark = "/memfd:gorun-rdma (deleted)"

// ofAdapter tells descriptors of an adapter for RDMA: the device, its events, the mark.
func ofAdapter(link string) bool {
	return strings.HasPrefix(link, adapterMemory) || link == "anon_inode:[infinibandevent]" || link == adapterMark
}

// ownAdapter reports whether the process has adapters for the transport.
func (g *Target) ownAdapter() bool {
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	return slices.ContainsFunc(fds, func(fd int) bool {
		link, _ := os.Readlink(fdPath(g.PID, fd))
		return link == adapterMark
	})
}

// isQueue tells a queue of POSIX messages, which looks like a file in the root folder.
func isQueue(pid, fd int, link string) bool {
	const queues = 0x19800202 // MQUEUE_MAGIC
	var st unix.Statfs_t
	return strings.Count(link, "/") == 1 && unix.Statfs(fdPath(pid, fd), &st) == nil && st.Type == queues
}

// checkProc refuses what belongs to another process, or to one thread: by the time
// of a restart its number may belong to any process.
func checkProc(pid int, path string) error {
	if _, _, ok := proc.OfProcess(path); ok && proc.OwnName(pid, path) == "" {
		return refusal.New("close it while checkpoints are taken, and open it when it is needed", "%s, a file of another process or of one thread", path)
	}
	return nil
}

// given tells which of the launcher's streams the descriptor is, or is another
// one of, -1 if none. A regular file or /dev/null may well have been opened by the
// program itself, too.
func (g *Target) given(f *state.File, link string) int {
	if f.Inode == 0 {
		return -1
	}
	id := fileID{f.Dev, f.Inode}
	if f.FD < len(g.stdio) && g.stdio[f.FD] == id {
		return f.FD
	}
	if f.Mode&unix.S_IFMT == unix.S_IFREG || slices.Contains(plainDevices, link) {
		return -1
	}
	return slices.Index(g.stdio[:], id)
}

// devices that can be opened again as they were.
var plainDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

func classifyPath(f *state.File, link string, stat *unix.Stat_t) error {
	f.Kind, f.Path = state.FileRegular, link
	if stat.Nlink == 0 || strings.HasPrefix(link, "/memfd:") {
		f.Path, f.Deleted = strings.TrimSuffix(link, " (deleted)"), true
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f.Size = stat.Size
		if _, gone := strings.CutSuffix(link, " (deleted)"); gone && !f.Deleted && !named(link, stat) {
			return refusal.New("open it by the name that it has", "the open file %s, which has another name only", link)
		}
	case unix.S_IFDIR: // a deleted one is empty, and stays so
	case unix.S_IFCHR:
		if !slices.Contains(plainDevices, link) && !strings.HasPrefix(link, "/dev/pts/") {
			return refusal.New("close the device while checkpoints are taken", "the device %s", link)
		}
	case unix.S_IFIFO:
		f.Kind, f.Pipe = state.FilePipe, f.Inode
	default:
		return refusal.New("close it while checkpoints are taken", "%s, a file of mode %#o", link, stat.Mode)
	}
	return nil
}

// checkFIFOs refuses named pipes of which the process has one end: who has the other does
// not show.
func checkFIFOs(files []state.File) error {
	ends := map[uint64]int{}
	const reads, writes = 1, 2
	for i := range files {
		if f := &files[i]; f.Kind == state.FilePipe {
			ends[f.Pipe] |= map[int]int{unix.O_RDONLY: reads, unix.O_WRONLY: writes, unix.O_RDWR: reads | writes}[f.Flags&unix.O_ACCMODE]
		}
	}
	for i := range files {
		if f := &files[i]; f.Kind == state.FilePipe && f.Path != "" && ends[f.Pipe] != reads|writes {
			return refusal.New("use a pipe, or close it while checkpoints are taken", "the named pipe %s, whose other end is elsewhere", f.Path)
		}
	}
	return nil
}

// named tells whether the file has the name, which may well end in " (deleted)".
func named(path string, stat *unix.Stat_t) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Dev == stat.Dev && st.Ino == stat.Ino
}

// nameOf is a descriptor of a strange kind in words.
func nameOf(link string) string {
	name, anon := strings.CutPrefix(link, "anon_inode:")
	if !anon {
		return "the descriptor " + link
	}
	return "a descriptor of the kind " + strings.Trim(name, "[]")
}

// remedyFor says what to do about a descriptor of a strange kind.
func remedyFor(link string) string {
	switch {
	case strings.Contains(link, "fanotify"):
		return "use inotify, close the file watcher while checkpoints are taken, or look at the files from time to time"
	case strings.Contains(link, "io_uring"):
		return "use ordinary reads and writes"
	case strings.Contains(link, "userfaultfd"):
		return "do without it, or use -cr=self"
	case strings.Contains(link, "pidfd"):
		return "wait for child processes and release them before a checkpoint"
	case strings.Contains(link, "perf_event"), strings.Contains(link, "bpf"):
		return "detach the profiler"
	}
	return "close it while checkpoints are taken, or use -cr=self"
}

// written tells whether what the program has written to the file has to be on
// the disk when the image is.
func written(f *state.File) bool { return f.Output() && f.First() }

// holdForSync keeps a descriptor of the file, best one that shares nothing with
// the program's, whose locks it would hold.
func (r *recorder) holdForSync(g *Target, fd int) {
	path := fdPath(g.PID, fd)
	for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY} {
		if held, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			r.sync = append(r.sync, held)
			return
		}
	}
	if held, err := g.Getfd(fd); err == nil {
		r.sync = append(r.sync, held)
	}
}

// keepContent keeps what a pipe or a file without a name holds.
func (st *stand) keepContent(r *recorder, f *state.File) error {
	var kind string
	switch {
	case f.Kind == state.FilePipe:
		kind = state.KindPipe
	case f.Deleted && f.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil
	case f.Deleted:
		kind = state.KindFile
	default:
		return nil
	}
	if r.has(kind, f.Inode) {
		return nil
	}
	// The section is named by the lowest descriptor, whatever its end.
	c := content{kind: kind, name: r.state.Section(strconv.Itoa(f.FD)), inode: f.Inode}
	var err error
	if kind == state.KindPipe {
		c.data, err = st.g.pipeContent(f)
	} else {
		c.data, err = st.g.fileContent(f)
	}
	if err == nil && c.data != nil {
		r.family.contents = append(r.family.contents, c)
	}
	return err
}

// fileContent reads a deleted file whole.
func (g *Target) fileContent(f *state.File) ([]byte, error) {
	if f.Size > maxContent {
		return nil, refusal.New("give it a name, or keep it smaller", "the deleted file %s of %d MB", f.Path, f.Size>>20)
	}
	// Opening it again leaves the program's offset alone.
	fd, err := unix.Open(fdPath(g.PID, f.FD), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, refusal.New("let this user read it", "the deleted file %s, which cannot be read: %v", f.Path, err)
	}
	defer unix.Close(fd)
	p := make([]byte, f.Size)
	n := 0
	for n < len(p) {
		k, err := unix.Pread(fd, p[n:], int64(n))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("deleted file %s: %w", f.Path, err)
		}
		if k == 0 {
			break
		}
		n += max(k, 0)
	}
	return p[:n], nil
}

// pipeContent copies what lies in a pipe and leaves it there. From the end for
// writing /proc opens the other, unless it is another user's pipe.
func (g *Target) pipeContent(f *state.File) ([]byte, error) {
	var rd int
	var err error
	if f.Flags&unix.O_ACCMODE == unix.O_RDONLY {
		rd, err = g.Getfd(f.FD)
	} else {
		rd, err = unix.Open(fdPath(g.PID, f.FD), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	defer unix.Close(rd)
	waiting, err := unix.IoctlGetInt(rd, unix.TIOCINQ)
	if err != nil || waiting == 0 {
		return nil, err
	}
	size, err := unix.FcntlInt(uintptr(rd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return nil, err
	}
	var ours [2]int
	if err := unix.Pipe2(ours[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	defer unix.Close(ours[0])
	defer unix.Close(ours[1])
	if size > 64<<10 { // more than ours has
		if _, err := unix.FcntlInt(uintptr(ours[1]), unix.F_SETPIPE_SZ, size); err != nil {
			return nil, fmt.Errorf("a pipe of %d bytes: %w", size, err)
		}
	}
	n, err := unix.Tee(rd, ours[1], size, unix.SPLICE_F_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("copying a pipe: %w", err)
	}
	p := make([]byte, n)
	for at := 0; at < len(p); {
		k, err := unix.Read(ours[0], p[at:])
		if err != nil {
			return nil, fmt.Errorf("copying a pipe: %w", err)
		}
		at += k
	}
	if len(p) != waiting {
		return nil, fmt.Errorf("copying a pipe: %d bytes of %d", len(p), waiting)
	}
	return p, nil
}

// unread copies the bytes that wait in the process's socket to its agent.
func (g *Target) unread() ([]byte, error) {
	if g.oob < 0 {
		return nil, nil
	}
	fd, err := g.Getfd(g.oob)
	if err != nil {
		return nil, fmt.Errorf("stream to the agent: %w", err)
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil || n == 0 {
		return nil, err
	}
	p := make([]byte, n)
	k, _, err := unix.Recvfrom(fd, p, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil || k != n {
		return nil, fmt.Errorf("stream to the agent: %d bytes of %d that wait there: %w", k, n, errors.Join(err, errShort))
	}
	return p, nil
}

var errShort = errors.New("not all could be read")

// sameness finds descriptors of one open file description. Only those that look
// alike are compared, by the kernel, whose order of them keeps the comparisons
// few: a thousand descriptors of one file are looked up in ten each.
type sameness struct {
	kcmp  bool
	alike map[looks][]descriptor // the first of each description, in the kernel's order
}

// descriptor is one of a process.
type descriptor struct{ pid, fd int }

// looks is all that shows of a description.
type looks struct {
	kind       string
	dev, inode uint64
	offset     int64
	flags      int
}

func newSameness() *sameness { return &sameness{kcmp: true, alike: map[looks][]descriptor{}} }

// first gives the first descriptor of the same description as f's, of process pid, and notes f.
// Descriptors are to come in ascending order, process by process.
func (s *sameness) first(pid int, f state.File) descriptor {
	l := looks{f.Kind, f.Dev, f.Inode, f.Offset, f.Flags &^ unix.O_CLOEXEC}
	known, d := s.alike[l], descriptor{pid, f.FD}
	at, same := s.find(known, d, f.Kind)
	if same {
		return known[at]
	}
	s.alike[l] = slices.Insert(known, at, d)
	return d
}

// find looks for the description of d among those known: where it is, or belongs.
func (s *sameness) find(known []descriptor, d descriptor, kind string) (at int, same bool) {
	if kind == state.FileSocket {
		return 0, len(known) > 0 // one description each
	}
	if s.kcmp {
		at, same = slices.BinarySearchFunc(known, d, s.compare)
	}
	if s.kcmp {
		return at, same
	}
	// Without kcmp: alike in all that shows. What can be told apart by nothing
	// else, as two epoll sets, is taken for two.
	return 0, len(known) > 0 && (kind == state.FileRegular || kind == state.FilePipe)
}

// compare gives the kernel's order of two descriptors' descriptions.
func (s *sameness) compare(a, b descriptor) int {
	r, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(a.pid), uintptr(b.pid), kcmpFile, uintptr(a.fd), uintptr(b.fd), 0)
	switch {
	case e != 0 || r > 2:
		s.kcmp = false
	case r == 1:
		return -1
	case r == 2:
		return 1
	}
	return 0
}

const kcmpFile = 0
