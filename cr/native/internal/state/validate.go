package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// ErrImage is wrapped where an image does not hold a process that can be
// restored: it was damaged or forged in spite of its checksums.
var ErrImage = errors.New("not an image of a process")

// Caps on what an image may ask for, far above what a process has, so that a
// forged one cannot make the restore allocate without bound.
const (
	maxRegions  = 1 << 18
	maxExtents  = 1 << 20
	maxThreads  = 1 << 15
	maxFiles    = 1 << 18
	maxFD       = 1 << 20
	maxWatches  = 1 << 20
	maxPending  = 1 << 12
	maxUnread   = 64 << 20
	maxStrings  = 8 << 20 // of arguments, and of the environment
	maxPath     = 4096
	maxAuxv     = 4096
	maxSymbols  = 64
	mostXState  = 64 << 10
	maxRseq     = 4096
	RegsSize    = 27 * 8 // struct user_regs_struct
	SigInfoSize = 128
	NumSignals  = 64
	// a mask of processors; the kernel has at most so many
	MaxProcessors = 8192
	// what XSAVE writes at least: the legacy area and the header behind it
	XStateHeader = 576
)

// Validate checks what an image says before anything is started from it: each
// number in its range, regions apart from each other, descriptors that exist.
func (s *State) Validate() error {
	for _, m := range s.All() {
		for _, check := range []func() error{m.validProcess, m.validRegions, m.validVDSO, m.validThreads, m.validFiles} {
			if err := check(); err != nil {
				return fmt.Errorf("%w: %w", ErrImage, err)
			}
		}
	}
	for _, check := range []func() error{s.validFamily, s.validSysV, s.validTerminals} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", ErrImage, err)
		}
	}
	return nil
}

func (s *State) validProcess() error {
	switch {
	case s.PID <= 0:
		return fmt.Errorf("process id %d", s.PID)
	case s.Umask < 0 || s.Umask > 0o777:
		return fmt.Errorf("umask %#o", s.Umask)
	case len(s.Comm) > 15 || strings.Contains(s.Comm, "\x00"):
		return fmt.Errorf("name %.40q", s.Comm)
	case len(s.Cmdline) > maxStrings || len(s.Environ) > maxStrings:
		return fmt.Errorf("%d bytes of arguments and %d of environment", len(s.Cmdline), len(s.Environ))
	case len(s.Auxv) > maxAuxv || len(s.Auxv)%16 != 0:
		return fmt.Errorf("auxiliary vector of %d bytes", len(s.Auxv))
	case len(s.Unread) > maxUnread:
		return fmt.Errorf("%d unread bytes", len(s.Unread))
	case s.Base < 0 || s.Mono < 0 || s.Boottime < 0:
		return fmt.Errorf("base %d, clocks %d and %d", s.Base, s.Mono, s.Boottime)
	case len(s.Actions) != 0 && len(s.Actions) != NumSignals:
		return fmt.Errorf("%d signal actions", len(s.Actions))
	case len(s.Limits) > NumLimits:
		return fmt.Errorf("%d resource limits", len(s.Limits))
	case s.Membarrier&^MembarrierAll != 0:
		return fmt.Errorf("membarrier registrations %#x", s.Membarrier)
	case s.OOMAdj != nil && (*s.OOMAdj < -1000 || *s.OOMAdj > 1000):
		return fmt.Errorf("oom_score_adj %d", *s.OOMAdj)
	}
	if err := s.validTimers(); err != nil {
		return err
	}
	for i, l := range s.Limits {
		if l.Soft > l.Hard {
			return fmt.Errorf("resource limit %d: %d of %d", i, l.Soft, l.Hard)
		}
	}
	if err := validPath(s.Exe); err != nil {
		return fmt.Errorf("executable: %w", err)
	}
	if err := validPath(s.Dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	m := s.MM
	for _, p := range [][2]uint64{
		{m.StartCode, m.EndCode}, {m.StartData, m.EndData}, {m.StartBrk, m.Brk},
		{m.ArgStart, m.ArgEnd}, {m.EnvStart, m.EnvEnd}, {m.StartStack, m.StartStack},
	} {
		if p[0] > p[1] || p[1] > pages.EndOfUser {
			return fmt.Errorf("layout %#x to %#x", p[0], p[1])
		}
	}
	return validPending(s.Shared)
}

// validPath accepts absolute paths that the kernel would.
func validPath(path string) error {
	if len(path) > maxPath || strings.Contains(path, "\x00") || !filepath.IsAbs(path) {
		return fmt.Errorf("path %.100q", path)
	}
	return nil
}

func validPending(list [][]byte) error {
	if len(list) > maxPending {
		return fmt.Errorf("%d pending signals", len(list))
	}
	for _, p := range list {
		if len(p) != SigInfoSize {
			return fmt.Errorf("pending signal of %d bytes", len(p))
		}
		if n := SignalOf(p); n < 1 || n > NumSignals {
			return fmt.Errorf("pending signal %d", n)
		}
	}
	return nil
}

func (s *State) validRegions() error {
	if len(s.Regions) > maxRegions {
		return fmt.Errorf("%d regions", len(s.Regions))
	}
	end := uint64(pages.Lowest)
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Path == "[vsyscall]" {
			continue // at the same place in every process, beyond all others
		}
		if err := validRange(r.Start, r.End); err != nil {
			return err
		}
		switch {
		case r.Start < end:
			return fmt.Errorf("region at %#x: the one before it ends at %#x", r.Start, end)
		case r.Prot&^7 != 0:
			return fmt.Errorf("region at %#x: protection %#x", r.Start, r.Prot)
		case r.Offset%pages.Size != 0 || r.Offset > 1<<62:
			return fmt.Errorf("region at %#x: offset %#x", r.Start, r.Offset)
		case len(r.Path) > maxPath || strings.Contains(r.Path, "\x00"):
			return fmt.Errorf("region at %#x: path %.100q", r.Start, r.Path)
		case !validDigest(r.Digest) || r.Digest != "" && !r.OfFile():
			return fmt.Errorf("region at %#x: digest %.100q", r.Start, r.Digest)
		case r.Own && (!r.Shared || !r.OfFile()):
			return fmt.Errorf("region at %#x is of its own and not shared", r.Start)
		case r.Written && (!r.Own || validPath(r.Path) != nil || r.Mode > 0o7777):
			return fmt.Errorf("region at %#x is of a file that is written to, and not of its own", r.Start)
		case r.SysV && (!r.Shared || r.Own || r.Inode >= 1<<31):
			return fmt.Errorf("region at %#x is of System V and not shared", r.Start)
		case r.Shared && r.Empty:
			return fmt.Errorf("region at %#x is shared and empty", r.Start)
		}
		end = r.End
	}
	all := slices.Clone(s.Guards)
	for _, l := range s.Locked {
		all = append(all, l.Extent)
	}
	for _, a := range s.Apart {
		all = append(all, a.Extent)
	}
	return validExtents(all)
}

// validExtents checks ranges of addresses that are kept apart from the regions they
// lie in.
func validExtents(all []pages.Extent) error {
	if len(all) > maxExtents {
		return fmt.Errorf("%d ranges of addresses", len(all))
	}
	for _, e := range all {
		if err := validRange(e.Start, e.End); err != nil {
			return err
		}
	}
	return nil
}

func validRange(start, end uint64) error {
	if start%pages.Size != 0 || end%pages.Size != 0 || start < pages.Lowest || end <= start || end > pages.EndOfUser {
		return fmt.Errorf("region %#x to %#x", start, end)
	}
	return nil
}

// validVDSO checks the kernel's own pages, which no other region may overlap.
func (s *State) validVDSO() error {
	v := &s.VDSO
	if v.Start == 0 && v.End == 0 && len(v.VVar) == 0 {
		return nil // a kernel without one
	}
	if err := validRange(v.Start, v.End); err != nil {
		return fmt.Errorf("vdso: %w", err)
	}
	if v.End-v.Start > MaxVDSO || len(v.VVar) > 8 || len(v.Symbols) > maxSymbols {
		return fmt.Errorf("vdso of %d bytes with %d regions before it and %d functions", v.End-v.Start, len(v.VVar), len(v.Symbols))
	}
	for name, offset := range v.Symbols {
		if offset >= v.End-v.Start {
			return fmt.Errorf("function %.40q of the vdso at %#x", name, offset)
		}
	}
	if s.Overlaps(v.Start, v.End) {
		return fmt.Errorf("the vdso at %#x overlaps a region", v.Start)
	}
	// They lie in front of it in every kernel; their distance is bounded so that
	// they move together.
	for _, r := range v.VVar {
		if err := validRange(r.Start, r.End); err != nil {
			return fmt.Errorf("vvar: %w", err)
		}
		if r.End > v.Start || v.Start-r.Start > MaxVDSO || s.Overlaps(r.Start, r.End) {
			return fmt.Errorf("vvar at %#x to %#x", r.Start, r.End)
		}
	}
	return nil
}

// Overlaps says whether a region that is mapped from the image meets the range.
func (s *State) Overlaps(start, end uint64) bool {
	for i := range s.Regions {
		if r := &s.Regions[i]; !r.Kernels() && r.Start < end && start < r.End {
			return true
		}
	}
	return false
}

func (s *State) validThreads() error {
	if len(s.Threads) == 0 || len(s.Threads) > maxThreads {
		return fmt.Errorf("%d threads", len(s.Threads))
	}
	if s.Threads[0].TID != s.PID {
		return fmt.Errorf("first thread %d, process %d", s.Threads[0].TID, s.PID)
	}
	seen := make(map[int]bool, len(s.Threads))
	for i := range s.Threads {
		t := &s.Threads[i]
		switch {
		case t.TID <= 0 || seen[t.TID]:
			return fmt.Errorf("thread id %d", t.TID)
		case len(t.Regs) != RegsSize:
			return fmt.Errorf("thread %d: registers of %d bytes", t.TID, len(t.Regs))
		case len(t.XState) < XStateHeader || len(t.XState) > mostXState:
			return fmt.Errorf("thread %d: extended state of %d bytes", t.TID, len(t.XState))
		case t.Nice < -20 || t.Nice > 19:
			return fmt.Errorf("thread %d: priority %d", t.TID, t.Nice)
		case len(t.CPUs) > MaxProcessors/8:
			return fmt.Errorf("thread %d: mask of %d processors", t.TID, 8*len(t.CPUs))
		case len(t.Comm) > 15 || strings.Contains(t.Comm, "\x00"):
			return fmt.Errorf("thread %d: name %.40q", t.TID, t.Comm)
		case t.Tidy > pages.EndOfUser || t.Robust[0] > pages.EndOfUser || t.Robust[1] > maxRseq:
			return fmt.Errorf("thread %d: addresses %#x and %#x", t.TID, t.Tidy, t.Robust)
		case t.Rseq != nil && (t.Rseq.Area > pages.EndOfUser || t.Rseq.Size > maxRseq):
			return fmt.Errorf("thread %d: restartable sequences %+v", t.TID, *t.Rseq)
		}
		seen[t.TID] = true
		if err := validPending(t.Pending); err != nil {
			return fmt.Errorf("thread %d: %w", t.TID, err)
		}
	}
	return nil
}

func (s *State) validFiles() error {
	if len(s.Files) > maxFiles {
		return fmt.Errorf("%d descriptors", len(s.Files))
	}
	byFD := make(map[int]*File, len(s.Files))
	for i := range s.Files {
		f := &s.Files[i]
		if f.FD < 0 || f.FD >= maxFD || byFD[f.FD] != nil {
			return fmt.Errorf("descriptor %d", f.FD)
		}
		byFD[f.FD] = f
	}
	watches := 0
	for i := range s.Files {
		f := &s.Files[i]
		if err := s.validFile(f, byFD); err != nil {
			return fmt.Errorf("descriptor %d: %w", f.FD, err)
		}
		watches += len(f.Epoll)
	}
	if watches > maxWatches {
		return fmt.Errorf("%d descriptors in epoll sets", watches)
	}
	return nil
}

func (s *State) validFile(f *File, byFD map[int]*File) error {
	if f.Kind == FileStdio {
		if f.Same < 0 || f.Same > 2 {
			return fmt.Errorf("standard stream %d", f.Same)
		}
		return nil
	}
	first := byFD[f.Same]
	if first == nil || f.Same > f.FD || first.Same != first.FD || first.Kind != f.Kind {
		return fmt.Errorf("said to be the same as %d", f.Same)
	}
	if err := s.validHeld(f, byFD); err != nil {
		return err
	}
	switch f.Kind {
	case FileOOB:
		if f.Same != s.OOB {
			return fmt.Errorf("stream to the agent, which is %d", s.OOB)
		}
	case FileRegular:
		if f.Offset < 0 || f.Size < 0 {
			return fmt.Errorf("offset %d of %d", f.Offset, f.Size)
		}
		if f.Written && (f.Deleted || f.Mode&syscall.S_IFMT != syscall.S_IFREG) {
			return fmt.Errorf("content of a file of mode %#o, deleted: %t", f.Mode, f.Deleted)
		}
		return validPath(f.Path)
	case FileTimer:
		if t := f.Timer; t == nil || t.Value < 0 || t.Interval < 0 {
			return errors.New("setting of the timer")
		}
	case FilePipe:
		if f.Path != "" {
			return validPath(f.Path)
		}
	case FilePidfd:
		if f.Target <= 0 {
			return fmt.Errorf("of process %d", f.Target)
		}
	case FileInotify:
		return f.validWatched(byFD)
	case FileSocket, FileEvent, FileSignal, FilePty: // for the last see validTerminals
	case FileEpoll:
	default:
		return fmt.Errorf("kind %.40q", f.Kind)
	}
	return nil
}

// SignalOf is the number of a pending signal.
func SignalOf(p []byte) int { return int(int32(binary.LittleEndian.Uint32(p))) }
