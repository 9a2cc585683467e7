package capture

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Files with a name that a program writes to by a shared mapping: they are shared memory of its own, if
// nobody else writes to them, and a restart gives them the content again that they had. A program that has other files
// open for reading and writing, as a database has, is refused: what is in those belongs together with the
// mapped one, and is at a restart whatever it is then.

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

const writtenRemedy = "unmap it while checkpoints are taken, map the file privately, or use -cr=self"

// checkWritten refuses files that others write to, as far as this user can see.
func (g *Target) checkWritten(maps []proc.Mapping) error {
	var paths []string
	for i := range maps {
		if m := &maps[i]; writes(m) && !slices.Contains(paths, m.Path) {
			paths = append(paths, m.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if err := g.checkBeside(paths); err != nil {
		return err
	}
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		path := writesTo(pid, paths)
		if path != "" && g.outside(pid) && !isCopy(pid) {
			return refusal.New(writtenRemedy, "the shared mapping of the file %s, which process %d has open for writing, too", path, pid)
		}
	}
	return nil
}

// writesTo gives one of the files that a process has open for writing, "" if none.
func writesTo(pid int, paths []string) string {
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		link, err := os.Readlink(fdPath(pid, fd))
		if err != nil || !slices.Contains(paths, link) {
			continue
		}
		in, err := proc.Parsed(pid, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
		if err == nil && in.Flags&unix.O_ACCMODE != unix.O_RDONLY {
			return link
		}
	}
	return ""
}

// checkBeside refuses what the process has open for reading and writing beside the files that it has mapped.
func (g *Target) checkBeside(mapped []string) error {
	fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	if err != nil {
		return err
	}
	for _, fd := range fds {
		f := state.File{FD: fd, Kind: state.FileRegular}
		if f.Path, err = os.Readlink(fdPath(g.PID, fd)); err != nil || !strings.HasPrefix(f.Path, "/") {
			continue
		}
		_, stat := statFile(g.PID, fd)
		in, err := proc.Parsed(g.PID, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
		if err != nil || stat == nil {
			continue
		}
		f.Flags, f.Mode, f.Deleted = in.Flags, stat.Mode, stat.Nlink == 0
		if err := refuseBeside(&f, mapped); err != nil {
			return err
		}
	}
	return nil
}

func refuseBeside(f *state.File, mapped []string) error {
	if !f.Output() || f.Flags&unix.O_ACCMODE != unix.O_RDWR || strings.HasPrefix(f.Path, "/memfd:") || strings.HasPrefix(f.Path, state.PosixMemory) || slices.Contains(mapped, f.Path) {
		return nil
	}
	return refusal.New(writtenRemedy, "the shared mapping of the file %s, while %s is open for reading and writing, too: the content of that at a moment is in no image", mapped[0], f.Path)
}

// recordWritten reads the files whole.
func (st *stand) recordWritten(r *recorder) error {
	var mapped []string
	for i := range r.maps {
		m := &r.maps[i]
		if !writes(m) {
			continue
		}
		mapped = append(mapped, m.Path)
		if err := st.family.keepWritten(m); err != nil {
			return err
		}
	}
	if len(mapped) == 0 {
		return nil
	}
	for i := range r.state.Files {
		if err := refuseBeside(&r.state.Files[i], mapped); err != nil {
			return err
		}
	}
	return nil
}

// keepWritten reads one file, once.
func (f *family) keepWritten(m *proc.Mapping) error {
	if f.written(m) {
		return nil
	}
	known := slices.ContainsFunc(f.contents, func(c content) bool {
		return c.inode == m.Inode && (c.kind == state.KindFile || c.kind == state.KindShared)
	})
	if _, ok := f.files[m.Inode]; ok || known {
		return refusal.New(writtenRemedy, "the shared mapping of the file %s, which has the number (%d) of another one", m.Path, m.Inode)
	}
	file, err := os.OpenFile(m.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return refusal.New("let this user read it", "the shared mapping of the file %s: %v", m.Path, err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Ino != m.Inode || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refusal.New("open it by the name that it has", "the shared mapping of the file %s, whose name another has", m.Path)
	case st.Size > maxContent:
		return refusal.New(writtenRemedy, "the shared mapping of the file %s of %d MB", m.Path, st.Size>>20)
	}
	data := make([]byte, st.Size)
	if _, err := io.ReadFull(file, data); err != nil {
		return fmt.Errorf("the mapped file %s: %w", m.Path, err)
	}
	if f.files == nil {
		f.files = map[uint64]writtenFile{}
	}
	f.files[m.Inode] = writtenFile{m.Path, st.Mode & 0o7777}
	f.contents = append(f.contents, content{kind: state.KindShared, name: strconv.FormatUint(m.Inode, 10), inode: m.Inode, data: data})
	return nil
}
