package native

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What stands against imaging a process. All of it is looked at before anything
// is stopped; what may have changed by then is looked at again in the standstill.

// check refuses what can be seen from outside. The lock is held while a process is
// born.
func (g *Target) check(lock sync.Locker) error {
	status, err := parsedProc(g.pid, "status", parseStatus)
	if err != nil {
		return err
	}
	if status.tracer != 0 && !isOurThread(status.tracer) { // ours are letting it go
		return refuseTracer(status.tracer)
	}
	mem, err := openMemory(g.pid)
	if errors.Is(err, fs.ErrPermission) {
		return refuse("do not switch PR_SET_DUMPABLE off, and let the executable be readable", "its memory may not be read")
	}
	if err != nil {
		return err
	}
	mem.Close()
	if err := g.checkIdentity(lock); err != nil {
		return err
	}
	if err := g.lookForLocked(status); err != nil {
		return err
	}
	maps, err := parsedProc(g.pid, "maps", parseMaps)
	if err != nil {
		return err
	}
	if _, err := workingDir(g.pid); err != nil {
		return err
	}
	for _, check := range []func() error{g.checkChildren, g.checkTimers, func() error { return checkMaps(maps) }, g.checkFiles} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func refuseTracer(pid int) error {
	return refuse("detach the debugger", "process %d traces it", pid)
}

// checkChildren refuses child processes, be they alive or not yet waited for.
func (g *Target) checkChildren() error {
	tids, err := threadsOf(g.pid)
	if err != nil {
		return err
	}
	for _, tid := range tids {
		p, err := os.ReadFile(g.task(tid) + "/children")
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				continue // the thread has ended, or the kernel does not tell
			}
			return fmt.Errorf("child processes: %w", err)
		}
		if pids := bytes.Fields(p); len(pids) > 0 {
			return refuseChild(string(pids[0]), len(pids))
		}
	}
	return nil
}

func refuseChild(pid string, n int) error {
	name := "?"
	id, _ := strconv.Atoi(pid)
	stat, err := parsedProc(id, "stat", parseStat)
	if err == nil {
		name = stat.comm
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	if stat.state == 'Z' {
		return refuse("call Wait on every command that was started", "its child process %s (%s)%s has ended and was not waited for", pid, name, more)
	}
	return refuse("run commands to their end between checkpoints, or use -cr=self", "it has a child process %s (%s)%s", pid, name, more)
}

// checkTimers refuses timers made by timer_create, as a CPU profile has them.
func (g *Target) checkTimers() error {
	p, err := procFile(g.pid, "timers")
	if errors.Is(err, fs.ErrNotExist) && !g.ended() {
		return nil // the kernel does not tell
	}
	if err != nil {
		return fmt.Errorf("timers: %w", err)
	}
	if len(bytes.TrimSpace(p)) > 0 {
		return errTimers
	}
	return nil
}

var errTimers = refuse("stop the CPU profile while checkpoints are taken, use time.Timer instead of timer_create and setitimer",
	"it has timers of its own")

// checkItimers refuses timers made by setitimer; only the process itself can look.
func checkItimers(in *injector, s *scratch) error {
	for which := range uint64(3) {
		if _, err := in.call(unix.SYS_GETITIMER, which, s.addr); err != nil {
			return fmt.Errorf("interval timers: %w", err)
		}
		var p [borrowedSize]byte
		if err := s.read(p[:]); err != nil {
			return err
		}
		if p != [borrowedSize]byte{} {
			return errTimers
		}
	}
	return nil
}

// checkMaps refuses memory that is shared with others or of a strange kind.
func checkMaps(maps []mapping) error {
	for i := range maps {
		m := &maps[i]
		if !m.shared {
			continue
		}
		if err := m.checkShared(); err != nil {
			return err
		}
	}
	return nil
}

// transportMemory is what the transport between processes of one machine calls its
// memory, as /proc shows it. Each rank has some and maps that of others.
const transportMemory = "/memfd:gorun-shm"

// transport tells memory through which messages go. None are in it when an image is
// made, and after a restore the transport begins anew: it comes back as private
// memory full of zeros, where stray reads and waits do no harm, until it is unmapped.
func (m *mapping) transport() bool { return m.shared && m.path == transportMemory }

// checkShared lets a file pass that the program only reads: mapped again, it has
// the same content.
func (m *mapping) checkShared() error {
	if m.transport() {
		return nil
	}
	where := fmt.Sprintf("at %#x, %d KB", m.start, (m.end-m.start)>>10)
	const remedy = "unmap it while checkpoints are taken, map the file privately, or use -cr=self"
	switch {
	case strings.HasPrefix(m.path, "/SYSV"):
		return refuse(remedy, "System V shared memory %s", where)
	case strings.HasPrefix(m.path, "/memfd:"):
		return refuse(remedy, "shared memory %s %s", strings.TrimPrefix(m.path, "/memfd:"), where)
	case strings.HasPrefix(m.path, "anon_inode:"):
		return refuse(remedyFor(m.path), "shared memory of the kind %s %s", strings.Trim(strings.TrimPrefix(m.path, "anon_inode:"), "[]"), where)
	case m.path == "" || strings.HasPrefix(m.path, "/dev/zero"):
		return refuse(remedy, "anonymous shared memory %s", where)
	case m.deleted:
		return refuse(remedy, "the shared mapping of the deleted file %s %s", m.path, where)
	case strings.HasPrefix(m.path, "/dev/"):
		return refuse(remedy, "the mapping of the device %s %s", m.path, where)
	case m.prot&unix.PROT_WRITE != 0:
		return refuse(remedy, "the shared mapping of the file %s %s", m.path, where)
	}
	return nil
}

// Flags of smaps: MAP_DROPPABLE, device memory, huge pages, absent in a copy,
// MAP_NORESERVE.
const (
	flagDroppable = "dp"
	flagHuge      = "ht"
	flagDevice    = "io"
	flagRaw       = "pf"
	flagNoCopy    = "dc"
	flagWipe      = "wf"
	flagMayWrite  = "mw"
	flagNoReserve = "nr"
)

// has tells whether the mapping has a flag of smaps.
func (m *mapping) has(flag string) bool {
	for f := range strings.FieldsSeq(m.flags) {
		if f == flag {
			return true
		}
	}
	return false
}

// kernels tells the mappings that the kernel makes by itself.
func (m *mapping) kernels() bool {
	return m.path == "[vdso]" || m.path == "[vsyscall]" || strings.HasPrefix(m.path, "[vvar")
}

// checkKind refuses what only the flags of smaps tell.
func (m *mapping) checkKind() error {
	where := fmt.Sprintf("%s at %#x, %d KB", m.path, m.start, (m.end-m.start)>>10)
	switch {
	case m.kernels(), m.transport():
		return nil
	case m.has(flagHuge):
		return refuse("use transparent huge pages (MADV_HUGEPAGE)", "a mapping of huge pages %s", where)
	case m.has(flagDevice), m.has(flagRaw):
		return refuse("unmap it while checkpoints are taken", "a mapping of device memory %s", where)
	case m.shared && m.has(flagMayWrite):
		return refuse("open the file for reading only", "the shared mapping %s", where)
	case m.has(flagWipe) && !m.has(flagDroppable):
		return refuse("do without MADV_WIPEONFORK", "memory %s that is not copied", where)
	}
	return nil
}

// checkFiles refuses descriptors of unknown kinds. A descriptor closed meanwhile
// is no matter; all are looked at again in the standstill.
func (g *Target) checkFiles() error {
	fds, err := numbersIn(fmt.Sprintf("/proc/%d/fd", g.pid))
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	for _, fd := range fds {
		link, err := os.Readlink(fdPath(g.pid, fd))
		if err != nil || strings.HasPrefix(link, "socket:[") {
			continue
		}
		f := File{FD: fd, Same: fd}
		id, stat := statFile(g.pid, fd)
		if stat != nil {
			f.Dev, f.Inode, f.Mode = id.dev, id.inode, stat.Mode
		}
		if err := f.classify(g, link, stat); err != nil {
			if _, still := os.Readlink(fdPath(g.pid, fd)); still != nil {
				continue
			}
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
		if f.Deleted && stat.Size > maxContent {
			_, err := g.fileContent(&f)
			return err
		}
	}
	return nil
}
