package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// What stands against imaging a process. All of it is looked at before anything
// is stopped; what may have changed by then is looked at again in the standstill.

// check refuses what can be seen from outside of a process and those that descend from it.
func (g *Target) check() error {
	if err := g.checkFamily(); err != nil {
		return err
	}
	if err := g.checkOne(); err != nil {
		return err
	}
	return errors.Join(g.checkSysV(), g.checkTerminals(), g.awaitQueues())
}

// checkOne looks at one of them.
func (g *Target) checkOne() error {
	g.lookForStream()
	status, err := proc.Parsed(g.PID, "status", proc.ParseStatus)
	if err != nil {
		return err
	}
	if status.Tracer != 0 && !trace.IsOurThread(status.Tracer) { // ours are letting it go
		return trace.RefuseTracer(status.Tracer)
	}
	if status.Ended {
		return trace.ErrLeaderEnded
	}
	mem, err := trace.OpenMemory(g.PID)
	if errors.Is(err, fs.ErrPermission) {
		return refusal.New("do not switch PR_SET_DUMPABLE off, and let the executable be readable", "its memory may not be read")
	}
	if err != nil {
		return err
	}
	mem.Close()
	g.lookForPlace()
	if err := g.checkIdentity(); err != nil {
		return err
	}
	if err := errors.Join(g.lookForLocked(status), g.lookForOOMAdj(), g.lookForProgram(), g.lookForApart()); err != nil {
		return err
	}
	maps, err := proc.Parsed(g.PID, "maps", proc.ParseMaps)
	if err != nil {
		return err
	}
	g.sysv = slices.ContainsFunc(maps, func(m proc.Mapping) bool { return m.OfSysV() })
	if _, _, err := workingDir(g.PID); err != nil {
		return err
	}
	for _, check := range []func() error{g.checkTimers, func() error { return checkMaps(maps) }, func() error { return g.checkAlone(maps) }, g.checkFiles, g.checkInotify} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkMaps refuses memory that is shared with others or of a strange kind.
func checkMaps(maps []proc.Mapping) error {
	for i := range maps {
		m := &maps[i]
		if !m.Shared {
			continue
		}
		if err := refuseShared(m); err != nil {
			return err
		}
	}
	return nil
}

// What transports call their memory, as /proc shows it: the shared memory of gorun's own, and of libfabric's under the names that package rdma/ofi
// gives, of which each rank has some and maps that of others; the queues that a driver of adapters shares with the process. Whose an
// adapter's are, its descriptors tell.
const (
	transportMemory = "/memfd:gorun-shm"
	libfabricMemory = "/dev/shm/gorun-ofi-"
	adapterMemory   = "/dev/infiniband/uverbs"
)

// transport tells memory through which messages go. None are in it when an image is
// made, and after a restore the transport starts over: it comes back as private
// memory full of zeros, where stray reads and waits do no harm, until it is unmapped.
func transport(m *proc.Mapping) bool {
	return m.Shared && (m.Path == transportMemory || strings.HasPrefix(m.Path, libfabricMemory) || strings.HasPrefix(m.Path, adapterMemory))
}

// ring tells memory that the rank shares with an offload process, which is paused. Its content is that of the descriptor.
func ring(m *proc.Mapping) bool { return m.Shared && m.Path == state.RingMemory }

// refuseShared lets a file pass that the program only reads: mapped again, it has
// the same content.
func refuseShared(m *proc.Mapping) error {
	if transport(m) || ring(m) || m.OfSysV() {
		return nil
	}
	if ownShared(m) {
		return refuseLarge(m)
	}
	where := fmt.Sprintf("at %#x, %d KB", m.Start, (m.End-m.Start)>>10)
	const remedy = "unmap it while checkpoints are taken, map the file privately, or use -cr=self"
	switch {
	case strings.HasPrefix(m.Path, "anon_inode:"):
		return refusal.New(remedyFor(m.Path), "shared memory of the kind %s %s", strings.Trim(strings.TrimPrefix(m.Path, "anon_inode:"), "[]"), where)
	case m.Deleted:
		return refusal.New(remedy, "the shared mapping of %s %s", m.Path, where)
	case strings.HasPrefix(m.Path, "/dev/"):
		return refusal.New(remedy, "the mapping of the device %s %s", m.Path, where)
	case m.Prot&unix.PROT_WRITE != 0:
		return refusal.New(remedy, "the shared mapping of the file %s %s", m.Path, where)
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

// checkKind refuses what only the flags of smaps tell; written is of a file whose content is known.
func checkKind(m *proc.Mapping, written bool) error {
	where := fmt.Sprintf("%s at %#x, %d KB", m.Path, m.Start, (m.End-m.Start)>>10)
	switch {
	case m.Kernels(), transport(m), ring(m):
		return nil
	case (written || ownShared(m) || m.OfSysV()) && !m.Has(flagHuge):
		return nil
	case m.Has(flagHuge):
		return refusal.New("use transparent huge pages (MADV_HUGEPAGE)", "a mapping of huge pages %s", where)
	case m.Has(flagDevice), m.Has(flagRaw):
		return refusal.New("unmap it while checkpoints are taken", "a mapping of device memory %s", where)
	case m.Shared && m.Has(flagMayWrite):
		return refusal.New("open the file for reading only", "the shared mapping %s", where)
	case m.Has(flagWipe) && !m.Has(flagDroppable):
		return refusal.New("do without MADV_WIPEONFORK", "memory %s that is not copied", where)
	}
	return nil
}

// checkFiles refuses descriptors of unknown kinds. A descriptor closed meanwhile
// is no matter; all are looked at again in the standstill.
func (g *Target) checkFiles() error {
	fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	g.masters = nil
	for _, fd := range fds {
		link, err := os.Readlink(fdPath(g.PID, fd))
		if err != nil || strings.HasPrefix(link, "socket:[") {
			continue
		}
		f := state.File{FD: fd, Same: fd}
		id, stat := statFile(g.PID, fd)
		if stat != nil {
			f.Dev, f.Inode, f.Mode = id.dev, id.inode, stat.Mode
		}
		if err := g.classify(&f, link, stat); err != nil {
			if _, still := os.Readlink(fdPath(g.PID, fd)); still != nil {
				continue
			}
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
		if f.Kind == state.FilePty && f.Master {
			g.masters = append(g.masters, fd)
		}
		if f.Kind == state.FilePidfd {
			if err := g.checkPidfd(fd); err != nil {
				return fmt.Errorf("descriptor %d: %w", fd, err)
			}
		}
		if f.Deleted && stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Size > maxContent {
			_, err := g.fileContent(&f)
			return err
		}
	}
	return nil
}
