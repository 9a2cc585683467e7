//go:build linux

package restore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/native/internal/vdso"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Not in x/sys/unix.
const (
	mapDroppable  = 0x8
	prSetVMA      = 0x53564d41
	mapFixed      = unix.MAP_PRIVATE | unix.MAP_FIXED_NOREPLACE
	prSetMM       = unix.PR_SET_MM
	prSetMMMap    = unix.PR_SET_MM_MAP
	mremapMayMove = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
)

// mappedFiles are the files that regions of the process map.
type mappedFiles struct {
	kept  string   // the executable of the first process, beside which libraries may be kept
	first int      // number that the first of them has in the process
	paths []string // as in Region.Path
	here  []int
}

// open opens them. Of files other than the executable it is insisted that they
// are the same, unless all that was mapped of them is in the image.
func (m *mappedFiles) open(s *state.State, first int, program string, filled map[int]int, made map[uint64]int) error {
	m.first = first
	regions := make(map[string]*state.Region) // the first of each file
	for i := range s.Regions {
		r := &s.Regions[i]
		if mapsFile(s, i, filled) {
			if other := regions[mapped(r)]; other != nil && other.Inode != r.Inode {
				return fmt.Errorf("%w: two files %s are mapped", state.ErrImage, r.Path)
			} else if other == nil {
				regions[mapped(r)] = r
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(regions)) {
		var fd int
		var err error
		if ring, own := strings.HasPrefix(path, state.RingMemory), strings.HasPrefix(path, ownPrefix); ring || own {
			fd, err = again(path, made, regions[path].Inode)
		} else {
			fd, err = m.openOne(s, regions[path], program)
		}
		if err != nil {
			return err
		}
		m.paths, m.here = append(m.paths, path), append(m.here, fd)
	}
	return nil
}

// mapped is what the file of a region is told by: its path, and for memory without a name its number, too.
func mapped(r *state.Region) string {
	number := strconv.FormatUint(r.Inode, 10)
	switch {
	case r.Own && !r.Has("mw"):
		return ownPrefix + number + readOnly
	case r.Own:
		return ownPrefix + number
	case r.Ring():
		return r.Path + " " + number
	}
	return r.Path
}

// Shared memory of the process's own is told by its number alone. What may not be written
// to by the mapping needs a descriptor that cannot either.
const (
	ownPrefix = "own "
	readOnly  = " to be read"
)

// again opens the file that was made again for a descriptor.
func again(path string, made map[uint64]int, inode uint64) (int, error) {
	fd, ok := made[inode]
	if !ok {
		return -1, fmt.Errorf("%w: %s is mapped, and there is no descriptor of it", state.ErrImage, path)
	}
	if strings.HasSuffix(path, readOnly) {
		return reopen(fd, unix.O_RDONLY)
	}
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// openOne opens the file of a region: the one that it was, or another with the same content, as another machine has it.
func (m *mappedFiles) openOne(s *state.State, r *state.Region, program string) (int, error) {
	const remedy = "put back the file that was there, or bring the snapshot by gorun snapshots -export and -import, which take along what is mapped"
	path := r.Path
	if alive(path) == alive(s.Exe) {
		fd, err := unix.Open(program, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("%w: %s: %w", ErrProgram, program, err)
		}
		return fd, nil
	}
	fd, err := openSame(path, r)
	if err != nil && r.Digest != "" {
		if fd, err := openSame(kept(m.kept, r.Digest), r); err == nil {
			return fd, nil
		}
	}
	if errors.Is(err, errReplaced) {
		return -1, fileError(path, remedy, "it was mapped and has been %w", err)
	}
	if err != nil {
		return -1, fileError(path, remedy, "it was mapped: %w", err)
	}
	return fd, nil
}

var errReplaced = errors.New("replaced by another one")

// openSame opens the file of a region at a path. errReplaced: that is another one.
func openSame(path string, r *state.Region) (int, error) {
	fd, err := owned.OpenLinked(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil && !same(fd, r) {
		unix.Close(fd)
		return -1, errReplaced
	}
	return fd, err
}

// same reports whether a file is the one that a region has mapped, or has its content.
func same(fd int, r *state.Region) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if r.Digest == "" || r.Shared && st.Ino == r.Inode { // what is shared may have changed in place
		return st.Ino == r.Inode
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return false
	}
	defer f.Close()
	digest, err := state.Digest(f)
	return err == nil && digest == r.Digest
}

// Close closes them here.
func (m *mappedFiles) Close() {
	for _, fd := range m.here {
		unix.Close(fd)
	}
	m.here = nil
}

// alive is the name that a file had before it was removed.
func alive(path string) string { return strings.TrimSuffix(path, " (deleted)") }

// mapsFile says whether region i maps its file again: not if the image holds all
// of it.
func mapsFile(s *state.State, i int, filled map[int]int) bool {
	r := &s.Regions[i]
	return r.OfFile() && !r.Kernels() && (r.Shared || uint64(filled[i]) < (r.End-r.Start)/pages.Size)
}

// build makes the process empty its address space and map, open and start
// everything that needs no content: the threads among it, which do not run yet.
func (r *restore) build() error {
	var calls []call
	calls = append(calls, r.clearCalls()...)
	regions, err := r.regionCalls()
	if err != nil {
		return err
	}
	calls = append(calls, regions...)
	calls = append(calls, r.vdsoCalls()...)
	calls = append(calls, r.processCalls()...)
	calls = append(calls, r.fileCalls()...)
	if r.place == nil {
		calls = append(calls, r.cloneCalls()...)
	} else if err := r.puppet.run(r.pid, calls); err != nil {
		return err
	} else if err := r.startInPlace(); err != nil {
		return err
	} else {
		calls = nil
	}
	calls = append(calls, r.copierCall()) // last, so that its number is not in the way
	return r.puppet.run(r.pid, calls)
}

// kernelPages lists the regions of the kernel in the fresh process.
func (r *restore) kernelPages() []pages.Extent {
	var all []pages.Extent
	for _, v := range r.shell.vdso.VVar {
		all = append(all, pages.Extent{Start: v.Start, End: v.End})
	}
	if v := &r.shell.vdso; v.End > 0 {
		all = append(all, pages.Extent{Start: v.Start, End: v.End})
	}
	return all
}

// clearCalls moves the kernel's pages aside and unmaps all else but the scratch.
func (r *restore) clearCalls() []call {
	var calls []call
	block := block(&r.shell.vdso)
	for _, p := range r.kernelPages() {
		calls = append(calls, moveCall(p, r.layout.park+p.Start-block.Start))
	}
	keep := mergeAddrs([]pages.Extent{
		{Start: r.layout.scratch, End: r.layout.scratch + areaSize},
		{Start: r.layout.park, End: r.layout.park + block.End - block.Start},
	})
	at := uint64(0)
	for _, k := range append(keep, pages.Extent{Start: pages.EndOfUser, End: pages.EndOfUser}) {
		if k.Start > at {
			calls = append(calls, call{what: "clearing the address space", nr: unix.SYS_MUNMAP, args: [6]uint64{at, k.Start - at}})
		}
		at = max(at, k.End)
	}
	return calls
}

func moveCall(p pages.Extent, to uint64) call {
	n := p.End - p.Start
	return call{what: fmt.Sprintf("moving the kernel's pages at %#x", p.Start), nr: unix.SYS_MREMAP,
		args: [6]uint64{p.Start, n, n, mremapMayMove, to}}
}

// regionCalls maps the image's regions. Those that are to be filled are writable
// for now.
func (r *restore) regionCalls() ([]call, error) {
	var calls []call
	s := r.state
	for i := range s.Regions {
		g := &s.Regions[i]
		if g.Kernels() {
			continue
		}
		if g.SysV {
			calls = append(append(calls, attachCalls(g)...), adviceCalls(g)...)
			continue
		}
		c, err := r.mapCall(i)
		if err != nil {
			return nil, err
		}
		calls = append(append(calls, c), adviceCalls(g)...)
	}
	return calls, nil
}

func (r *restore) mapCall(i int) (call, error) {
	g := &r.state.Regions[i]
	prot := uint64(g.Prot)
	if r.filled[i] > 0 {
		prot = prot&^unix.PROT_EXEC | unix.PROT_READ | unix.PROT_WRITE
	}
	flags := uint64(mapFixed)
	fd, offset := ^uint64(0), uint64(0)
	switch {
	case mapsFile(r.state, i, r.filled):
		if g.Shared {
			if g.Prot&unix.PROT_WRITE != 0 && !g.Ring() && !g.Own {
				return call{}, fmt.Errorf("%w: shared writable mapping of %s", state.ErrImage, g.Path)
			}
			flags = unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE
		}
		j, _ := slices.BinarySearch(r.maps.paths, mapped(g))
		fd, offset = uint64(r.maps.first+j), g.Offset
	case g.Shared:
		return call{}, fmt.Errorf("%w: shared memory at %#x", state.ErrImage, g.Start)
	case g.Empty && g.Has("dp"):
		flags = flags&^unix.MAP_PRIVATE | mapDroppable | unix.MAP_ANONYMOUS
	default:
		flags |= unix.MAP_ANONYMOUS
	}
	if g.Has("gd") {
		flags |= unix.MAP_GROWSDOWN
	}
	if g.Has("nr") {
		flags |= unix.MAP_NORESERVE
	}
	return call{what: fmt.Sprintf("mapping %#x to %#x %s", g.Start, g.End, g.Path), nr: unix.SYS_MMAP,
		args: [6]uint64{g.Start, g.End - g.Start, prot, flags, fd, offset}}, nil
}

// advices are the flags of smaps that madvise has set.
var advices = []struct {
	flag   string
	advice uint64
}{
	{"hg", unix.MADV_HUGEPAGE}, {"nh", unix.MADV_NOHUGEPAGE}, {"dd", unix.MADV_DONTDUMP},
	{"dc", unix.MADV_DONTFORK}, {"wf", unix.MADV_WIPEONFORK}, {"mg", unix.MADV_MERGEABLE},
	{"sr", unix.MADV_SEQUENTIAL}, {"rr", unix.MADV_RANDOM},
}

// adviceCalls repeats what the program has told the kernel of a region, and its
// name. Kernels without these go on without.
func adviceCalls(g *state.Region) []call {
	var calls []call
	size := g.End - g.Start
	for _, a := range advices {
		// What is droppable has these two by its nature.
		if g.Has(a.flag) && !(g.Empty && (a.flag == "dd" || a.flag == "wf")) {
			calls = append(calls, call{what: "advice", nr: unix.SYS_MADVISE, args: [6]uint64{g.Start, size, a.advice}, may: true})
		}
	}
	if name, ok := strings.CutPrefix(g.Path, "[anon:"); ok {
		calls = append(calls, call{what: "name", nr: unix.SYS_PRCTL, args: [6]uint64{prSetVMA, 0, g.Start, size},
			data: append([]byte(strings.TrimSuffix(name, "]")), 0), at: 4, may: true})
	}
	return calls
}

// vdsoCalls puts the kernel's pages where they belong, and maps the memory of
// the bridge where they do not stand where they stood.
func (r *restore) vdsoCalls() []call {
	var calls []call
	block := block(&r.shell.vdso)
	for _, p := range r.kernelPages() {
		from := pages.Extent{Start: r.layout.park + p.Start - block.Start, End: r.layout.park + p.End - block.Start}
		calls = append(calls, moveCall(from, r.layout.vdso+p.Start-r.shell.vdso.Start))
	}
	if r.layout.moved && r.state.VDSO.End > 0 {
		for _, a := range r.bridgeAddrs() {
			calls = append(calls, call{what: "memory for the clock functions", nr: unix.SYS_MMAP, args: [6]uint64{a.Start, a.End - a.Start,
				unix.PROT_READ | unix.PROT_WRITE, mapFixed | unix.MAP_ANONYMOUS, ^uint64(0), 0}})
		}
	}
	return calls
}

func (r *restore) bridgeAddrs() []pages.Extent {
	return []pages.Extent{{Start: r.state.VDSO.Start, End: r.state.VDSO.End}, {Start: r.layout.code, End: r.layout.code + bridgeCode}}
}

// protect gives what has been filled its protection, and builds the bridge.
func (r *restore) protect() error {
	var calls []call
	if fd := r.copier.there; fd >= 0 {
		calls = append(calls, call{what: "closing", nr: unix.SYS_CLOSE, args: [6]uint64{uint64(fd)}})
	}
	calls = append(append(calls, guardCalls(r.state)...), apartCalls(r.state)...)
	for i := range r.state.Regions {
		g := &r.state.Regions[i]
		if r.filled[i] > 0 && g.Prot != unix.PROT_READ|unix.PROT_WRITE {
			calls = append(calls, protectCall(pages.Extent{Start: g.Start, End: g.End}, uint64(g.Prot)))
		}
	}
	if r.layout.moved && r.state.VDSO.End > 0 {
		if err := r.buildBridge(); err != nil {
			return err
		}
		for _, a := range r.bridgeAddrs() {
			calls = append(calls, protectCall(a, unix.PROT_READ|unix.PROT_EXEC))
		}
	}
	return r.puppet.run(r.pid, calls)
}

func protectCall(a pages.Extent, prot uint64) call {
	return call{what: fmt.Sprintf("protecting %#x to %#x", a.Start, a.End), nr: unix.SYS_MPROTECT, args: [6]uint64{a.Start, a.End - a.Start, prot}}
}

func (r *restore) buildBridge() error {
	old, now := &r.state.VDSO, &r.shell.vdso
	same := now.Sum == old.Sum
	b, err := vdso.BridgeTo(old, r.layout.vdso, now.Symbols, same, r.offset, r.layout.code)
	if err != nil {
		return err
	}
	if len(b.Code) > bridgeCode {
		return fmt.Errorf("%w: %d functions of the kernel it was imaged on", state.ErrHost, len(old.Symbols))
	}
	var why []string
	if !fitsPlace(now, old) {
		why = append(why, "another kernel's clock functions")
	}
	if !r.offset.None() {
		why = append(why, "this machine's clock is behind by "+strconv.FormatInt(max(r.offset.Mono, r.offset.Boot)/1e9, 10)+" s")
	}
	r.why = strings.Join(why, "; ")
	if err := r.puppet.mem.Poke(b.Jumps, old.Start); err != nil {
		return err
	}
	return r.puppet.mem.Poke(b.Code, r.layout.code)
}

// clearScratch unmaps the memory from which calls were made: the last call is
// made from the program's own text, or the kernel's.
func (r *restore) clearScratch() error {
	now, err := proc.Parsed(r.pid, "maps", proc.ParseMaps)
	if err != nil {
		return err
	}
	now = slices.DeleteFunc(now, func(m proc.Mapping) bool {
		return m.Start >= r.layout.scratch && m.Start < r.layout.scratch+areaSize
	})
	text, err := trace.FindSyscall(r.puppet.mem, now)
	if err != nil {
		return err
	}
	in := &trace.Injector{TID: r.pid, Text: text, Own: r.puppet.base}
	if r.state.Private { // from now on little can be seen of it
		if _, err := in.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0); err != nil {
			return fmt.Errorf("PR_SET_DUMPABLE: %w", err)
		}
	}
	if _, err := in.Call(unix.SYS_MUNMAP, r.layout.scratch, areaSize); err != nil {
		return fmt.Errorf("clearing up: %w", err)
	}
	return nil
}
