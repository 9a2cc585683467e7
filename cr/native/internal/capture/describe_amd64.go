package capture

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/native/internal/vdso"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// describe completes the state with what the copy tells as well as the process
// did, and which therefore can be read when the process goes on already. pid is
// the copy's.
func (c *captured) describe(pid int) ([]proc.Mapping, error) {
	maps, err := proc.Parsed(pid, "smaps", proc.ParseSmaps)
	if err != nil {
		return nil, err
	}
	if len(maps) == 0 { // it is just ending
		return nil, errCopyDied
	}
	if err := c.checkCopied(maps); err != nil {
		return nil, err
	}
	for _, step := range []func(pid int) error{c.checkIdentity, c.describeProgram, c.describeAttributes, c.describeStrings, c.describeHost, c.describeVDSO, c.describeGuards} {
		if err := step(pid); err != nil {
			return nil, err
		}
	}
	if err := c.describeSignals(); err != nil {
		return nil, err
	}
	c.describeRegions(maps)
	c.describeLocked(maps)
	return maps, nil
}

// checkCopied refuses what the kernel leaves out of copies, and kinds of memory
// that show only here.
func (c *captured) checkCopied(maps []proc.Mapping) error {
	for i := range maps {
		if err := checkKind(&maps[i], c.family.written(&maps[i])); err != nil {
			return err
		}
	}
	// By addresses: neighbours may have become one mapping meanwhile, by being
	// followed.
	next := 0
	for i := range c.maps {
		for at := c.maps[i].Start; at < c.maps[i].End; at = maps[next].End {
			for next < len(maps) && maps[next].End <= at {
				next++
			}
			if next == len(maps) || maps[next].Start > at {
				return refusal.New("do without MADV_DONTFORK", "memory at %#x, %d KB, that is not copied", at, (c.maps[i].End-at)>>10)
			}
		}
	}
	return nil
}

func (c *captured) describeProgram(pid int) error {
	s := c.state
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	p, err := runtimes.ReadProgram(exe)
	if err != nil {
		return fmt.Errorf("the executable: %w", err)
	}
	s.BuildID, s.ExeSum = p.BuildID, p.Sum
	if s.Exe, err = os.Readlink(exe); err != nil {
		return err
	}
	s.Exe = strings.TrimSuffix(s.Exe, " (deleted)")
	if s.Dir, s.DirGone, err = workingDir(pid); err != nil {
		return err
	}
	stat, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	if err != nil {
		return err
	}
	s.MM = proc.MMOf(stat.Layout)
	s.Comm = s.Threads[0].Comm
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	s.Umask = status.Umask
	return err
}

// workingDir finds the folder a process is in, and whether that was deleted.
func workingDir(pid int) (dir string, gone bool, err error) {
	dir, err = os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return "", false, err
	}
	if _, _, ok := proc.OfProcess(dir); ok {
		return "", false, refusal.New("change to another folder", "its working directory %s, of a process", dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/cwd", pid), &st); err == nil && st.Nlink == 0 {
		dir, gone = strings.CutSuffix(dir, " (deleted)")
	}
	return dir, gone, nil
}

func (c *captured) describeStrings(pid int) error {
	for name, to := range map[string]*[]byte{"cmdline": &c.state.Cmdline, "environ": &c.state.Environ, "auxv": &c.state.Auxv} {
		p, err := proc.Read(pid, name)
		if err != nil {
			return err
		}
		*to = p
	}
	return nil
}

func (c *captured) describeHost(int) error {
	h, err := state.LocalHost()
	if err != nil {
		return err
	}
	if came := &c.g.came; came.extensions != nil && came.mm == c.state.MM && c.runtimes.C == nil {
		h.Flags = came.extensions
	}
	h.XSave = 0
	for i := range c.state.Threads {
		h.XSave |= xsaveInUse(c.state.Threads[i].XState)
	}
	c.state.Host = h
	return nil
}

// xsaveInUse gives the components that the saved state of a thread holds.
func xsaveInUse(x []byte) uint64 {
	const header = 512
	if len(x) < header+8 {
		return 0
	}
	return le.Uint64(x[header:])
}

func (c *captured) describeVDSO(int) error {
	v := &c.state.VDSO
	for i := range c.maps {
		m := &c.maps[i]
		switch {
		case m.Path == "[vdso]":
			v.Start, v.End = m.Start, m.End
		case strings.HasPrefix(m.Path, "[vvar"):
			v.VVar = append(v.VVar, regionOf(m))
		}
	}
	if v.Start == 0 {
		return nil
	}
	p := make([]byte, min(v.End-v.Start, state.MaxVDSO))
	err := c.memory().Peek(p, v.Start)
	if err == nil {
		v.Sum, v.Symbols, err = vdso.Read(p)
	}
	return err
}

// describeSignals asks for the handlers of all signals and for what else a process
// alone is told: the end of its data segment, whether others may look at it, its
// securebits, and what it has registered for membarrier.
func (c *captured) describeSignals() error {
	ask := func(in *trace.Injector, s *trace.Scratch) error {
		brk, err := in.Call(unix.SYS_BRK, 0)
		if err != nil {
			return err
		}
		c.state.MM.Brk = brk
		dumpable, err := in.Call(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE)
		if err != nil {
			return err
		}
		c.state.Private = dumpable != 1
		if err := c.g.agent.checkSecureBits(in); err != nil {
			return err
		}
		if c.state.Membarrier, err = membarriers(in); err != nil {
			return err
		}
		if err := c.askKind(in); err != nil {
			return err
		}
		for sig := range uint64(state.NumSignals) {
			if _, err := in.Call(unix.SYS_RT_SIGACTION, sig+1, 0, s.Addr, 8); err != nil {
				return fmt.Errorf("action of signal %d: %w", sig+1, err)
			}
			var p [trace.ScratchSize]byte
			if err := s.Read(p[:]); err != nil {
				return err
			}
			c.state.Actions = append(c.state.Actions, state.SigAction{
				Handler: le.Uint64(p[:]), Flags: le.Uint64(p[8:]), Restorer: le.Uint64(p[16:]), Mask: le.Uint64(p[24:]),
			})
		}
		return nil
	}
	var err error
	if !c.th.Do(func() { err = c.inject(ask) }) {
		return trace.ErrClosed
	}
	return err
}

// inject runs f with the copy, or the standing process, ready to make system
// calls. It runs on the tracing thread.
func (c *captured) inject(f func(*trace.Injector, *trace.Scratch) error) error {
	if c.pid == 0 {
		return c.st.inLeader(c.recorder, f)
	}
	s, err := trace.Borrow(c.own, &c.in.Own)
	if err != nil {
		return err
	}
	err = f(c.in, s)
	if e := s.GiveBack(); err == nil {
		err = e
	}
	return err
}

// memory is what the image is read from.
func (c *captured) memory() *trace.Memory {
	if c.pid == 0 {
		return c.mem
	}
	return c.own
}

// describeRegions notes the mappings of the image.
func (c *captured) describeRegions(maps []proc.Mapping) {
	for i := range maps {
		m := &maps[i]
		if m.Kernels() {
			continue
		}
		r := regionOf(m)
		r.Empty = m.Has(flagDroppable)
		switch {
		case transport(m):
			r = state.Region{Start: m.Start, End: m.End, Prot: m.Prot, Flags: flagNoReserve}
		case ring(m):
		case m.OfSysV():
			r.SysV = true
		case c.family.written(m):
			r.Own, r.Written, r.Mode = true, true, c.family.files[m.Inode].mode
		case ownShared(m):
			r.Own = true
		case lost(m, c.state.Exe):
			r.Path, r.Inode, r.Offset = "", 0, 0
		default:
			r.Digest = digest(m, c.state.Exe)
		}
		c.state.Regions = append(c.state.Regions, r)
	}
}

func regionOf(m *proc.Mapping) state.Region {
	return state.Region{
		Start: m.Start, End: m.End, Prot: m.Prot, Shared: m.Shared, Path: m.Path,
		Offset: m.Offset, Inode: m.Inode, Flags: m.Flags,
	}
}

// wholeFile is the size up to which mappings of files are saved whole.
const wholeFile = 8 << 20

// lost tells whether the mapping has to be saved whole, because its file may not
// be had again: it was deleted, or another machine has another version of it, as
// of the loader that position-independent programs start with. The executable is
// kept with the snapshot; what is larger is data that the program brings itself.
func lost(m *proc.Mapping, exe string) bool {
	small := !m.Shared && !m.Anonymous() && m.End-m.Start <= wholeFile
	return m.Path != exe && (m.Deleted || small)
}
