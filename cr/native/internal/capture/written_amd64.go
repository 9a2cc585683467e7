package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Files with a name that a program changes in place are in images whole, as its memory is, and a restart gives them the
// content again that they had: those that it writes to by a shared mapping, those that it writes to elsewhere than at
// their end, and small ones that it may read as well, unless it appends. Of what only grows the length says enough. What somebody
// beside the family writes to as well is not the program's alone: it is refused where it is mapped, and stays as it is where it is not.
//
// Where a program has such a file mapped, what it has open for reading and writing beside that may belong to it, as with a
// database and its index. Then all of these are in the image, or the program is refused.

// writtenFile is one.
type writtenFile struct {
	path string
	mode uint32
}

// writes tells a shared mapping by which such a file is written to.
func writes(m *proc.Mapping) bool {
	return m.Shared && m.Prot&unix.PROT_WRITE != 0 && strings.HasPrefix(m.Path, "/") && !m.Deleted &&
		(!strings.HasPrefix(m.Path, "/dev/") || strings.HasPrefix(m.Path, state.PosixMemory)) &&
		!strings.HasPrefix(m.Path, "/memfd:") && !strings.HasPrefix(m.Path, "/[") && !strings.HasPrefix(m.Path, "/anon_hugepage") &&
		!transport(m) && !ring(m) && !m.OfSysV()
}

// written tells all mappings of a file that one of the family writes to.
func (f *family) written(m *proc.Mapping) bool {
	w, ok := f.files[m.Inode]
	return ok && m.Shared && m.Path == w.path
}

// maxKept bounds together the mapped files that are in the image because the program writes to them: they are read while it
// stands still, and held until they are written.
const maxKept = 4 * maxContent

const writtenRemedy = "unmap it while checkpoints are taken, map the file privately, or use -cr=self"

// checkWritten refuses mapped files that others write to, and what is open beside them and cannot be in the image. It looks
// for others while the program runs: that takes the longer the more processes there are.
func (g *Target) checkWritten(maps []proc.Mapping) error {
	var mapped []string
	for i := range maps {
		if m := &maps[i]; writes(m) && !slices.Contains(mapped, m.Path) {
			mapped = append(mapped, m.Path)
		}
	}
	data := slices.ContainsFunc(mapped, func(path string) bool { return !state.Statistics(path) })
	files := g.inPlace(data)
	paths := slices.Clone(mapped)
	for i := range files {
		paths = append(paths, files[i].Path)
	}
	g.writers = nil
	if err := g.findWriters(paths); err != nil {
		return err
	}
	for _, path := range mapped {
		if pid := g.writers[path]; pid != 0 {
			return refusal.New(writtenRemedy, "the shared mapping of the file %s, which process %d has open for writing, too", path, pid)
		}
	}
	for i := range files {
		f := &files[i]
		if !data || slices.Contains(mapped, f.Path) {
			continue
		}
		if err := g.refuseBeside(f); err != nil {
			return err
		}
	}
	return nil
}

// inPlace gives the files that the process has open and changes in place, as it seems while it runs.
func (g *Target) inPlace(mapped bool) (files []state.File) {
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	for _, fd := range fds {
		f := state.File{FD: fd, Kind: state.FileRegular}
		var err error
		if f.Path, err = os.Readlink(fdPath(g.PID, fd)); err != nil || !strings.HasPrefix(f.Path, "/") {
			continue
		}
		_, stat := statFile(g.PID, fd)
		in, err := proc.Parsed(g.PID, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
		if err != nil || stat == nil {
			continue
		}
		f.Flags, f.Offset, f.Size, f.Mode, f.Deleted = in.Flags, in.Pos, stat.Size, stat.Mode, stat.Nlink == 0
		if g.given(&f, f.Path) < 0 && changes(&f, mapped) {
			files = append(files, f)
		}
	}
	return files
}

// changes tells a file that is changed in place, or that may belong to a mapped one that is.
func changes(f *state.File, mapped bool) bool {
	if !f.Output() || kernels(f.Path) || strings.HasPrefix(f.Path, "/memfd:") {
		return false
	}
	return f.InPlace() || mapped && f.Flags&unix.O_ACCMODE == unix.O_RDWR
}

// kernels tells files that the kernel makes.
func kernels(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/")
}

// findWriters notes who beside the family has files open for writing, as far as this user can see.
// It does not repeat searches made since the last check.
func (g *Target) findWriters(paths []string) error {
	paths = slices.DeleteFunc(paths, func(path string) bool { _, known := g.writers[path]; return known })
	if len(paths) == 0 {
		return nil
	}
	all, err := g.agent.writers.find()
	if err != nil {
		return err
	}
	if g.writers == nil {
		g.writers = map[string]int{}
	}
	for _, path := range paths {
		g.writers[path] = 0
		for _, pid := range all[path] {
			if g.outside(pid) && !isCopy(pid) {
				g.writers[path] = pid
			}
		}
	}
	return nil
}

// writers are the processes of the machine by the files that they have open for writing. The ranks of an agent, which ask at the same time, look
// once: that takes the longer the more processes there are.
type writers struct {
	mu   sync.Mutex
	when time.Time
	all  map[string][]int
}

// fresh is how long a sighting counts.
const fresh = 20 * time.Millisecond

func (w *writers) find() (map[string][]int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.when) < fresh {
		return w.all, nil
	}
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return nil, err
	}
	w.all = map[string][]int{}
	for _, pid := range pids {
		for _, path := range writesTo(pid) {
			w.all[path] = append(w.all[path], pid)
		}
	}
	w.when = time.Now()
	return w.all, nil
}

// writesTo gives the files that a process has open for writing.
func writesTo(pid int) (files []string) {
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		link, err := os.Readlink(fdPath(pid, fd))
		if err != nil || !strings.HasPrefix(link, "/") || kernels(link) || strings.HasPrefix(link, "/dev/") && !strings.HasPrefix(link, state.PosixMemory) {
			continue
		}
		in, err := proc.Parsed(pid, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
		if err == nil && in.Flags&unix.O_ACCMODE != unix.O_RDONLY {
			files = append(files, link)
		}
	}
	return files
}

// refuseBeside says why a file cannot be in the image with a mapped one.
func (g *Target) refuseBeside(f *state.File) error {
	const beside = ", which is open for reading and writing beside one that is written to by a shared mapping"
	if pid := g.writers[f.Path]; pid != 0 {
		return refusal.New(writtenRemedy, "the file %s"+beside+", and which process %d has open for writing, too", f.Path, pid)
	}
	if f.Size > maxContent {
		return refusal.New(writtenRemedy, "the file %s of %d MB"+beside, f.Path, f.Size>>20)
	}
	return nil
}

// recordWritten reads the mapped files whole.
func (st *stand) recordWritten(r *recorder) error {
	for i := range r.maps {
		m := &r.maps[i]
		if !writes(m) {
			continue
		}
		st.family.mapped = st.family.mapped || !state.Statistics(m.Path)
		if err := st.family.keepWritten("the shared mapping of the file "+m.Path, m.Path, m.Inode); err != nil {
			return err
		}
	}
	return nil
}

// recordInPlace reads the other files whole that are changed in place.
func (st *stand) recordInPlace(r *recorder) error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		if _, kept := st.family.files[f.Inode]; kept || !changes(f, st.family.mapped) {
			continue
		}
		err := st.g.findWriters([]string{f.Path})
		if err != nil {
			return err
		}
		mine := st.g.writers[f.Path] == 0
		if st.family.mapped {
			err = st.g.refuseBeside(f)
		}
		if err == nil && mine {
			err = st.family.keepWritten("the file "+f.Path, f.Path, f.Inode)
		}
		if err != nil && (st.family.mapped || !errors.Is(err, refusal.ErrRefused)) {
			return err
		}
	}
	return nil
}

// recordKept tells all descriptors of such files.
func (st *stand) recordKept(r *recorder) error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		w, kept := st.family.files[f.Inode]
		f.Written = kept && f.Kind == state.FileRegular && !f.Deleted && f.Flags&unix.O_PATH == 0 && f.Path == w.path
	}
	return nil
}

// keepWritten reads one file, once. It refuses what cannot be in an image.
func (f *family) keepWritten(what, path string, inode uint64) error {
	if w, ok := f.files[inode]; ok && w.path == path {
		return nil
	}
	known := slices.ContainsFunc(f.contents, func(c content) bool {
		return c.inode == inode && (c.kind == state.KindFile || c.kind == state.KindShared)
	})
	if _, ok := f.files[inode]; ok || known {
		return refusal.New(writtenRemedy, "%s, which has the number (%d) of another one", what, inode)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return refusal.New("let this user read it", "%s: %v", what, err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Ino != inode || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refusal.New("open it by the name that it has", "%s, whose name another has", what)
	case st.Size > maxContent:
		return refusal.New(writtenRemedy, "%s of %d MB", what, st.Size>>20)
	case f.kept+st.Size > maxKept:
		return refusal.New(writtenRemedy, "%s, with %d MB of other files", what, f.kept>>20)
	}
	data := make([]byte, st.Size)
	if _, err := io.ReadFull(file, data); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if f.files == nil {
		f.files = map[uint64]writtenFile{}
	}
	f.files[inode] = writtenFile{path, st.Mode & 0o7777}
	f.kept += st.Size
	f.contents = append(f.contents, content{kind: state.KindShared, name: strconv.FormatUint(inode, 10), inode: inode, data: data})
	return nil
}
