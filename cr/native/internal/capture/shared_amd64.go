package capture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Shared memory that no other process has: made by mmap, by memfd_create, or of a file that
// was deleted. A copy of the process shares it, too, so that its content is read while the
// process stands, and bounded.

// ownShared tells such memory.
func ownShared(m *proc.Mapping) bool {
	if writes(m) {
		return true
	}
	if !m.Shared || transport(m) || ring(m) || m.OfSysV() || strings.HasPrefix(m.Path, "/[") || strings.HasPrefix(m.Path, "/anon_hugepage") {
		return false
	}
	return strings.HasPrefix(m.Path, "/memfd:") || m.Deleted && strings.HasPrefix(m.Path, "/")
}

func refuseLarge(m *proc.Mapping) error {
	if m.Offset+m.End-m.Start > maxContent {
		return refusal.New("use private memory for what is large", "shared memory %s at %#x, %d MB", m.Path, m.Start, (m.End-m.Start)>>20)
	}
	return nil
}

// checkAlone refuses shared memory that another process maps as well, as far as this user
// can see.
func (g *Target) checkAlone(maps []proc.Mapping) error {
	if err := g.checkWritten(maps); err != nil {
		return err
	}
	own := map[uint64]*proc.Mapping{}
	for i := range maps {
		if m := &maps[i]; ownShared(m) {
			own[m.Inode] = m
			if err := g.checkNames(m); err != nil {
				return err
			}
		}
	}
	if len(own) == 0 {
		return nil
	}
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		others, err := proc.Parsed(pid, "maps", proc.ParseMaps)
		if err != nil {
			continue // another user's, or just ending
		}
		for i := range others {
			o := &others[i]
			m := own[o.Inode]
			if m == nil || !o.Shared || o.Path != m.Path {
				continue
			}
			if isCopy(pid) {
				break
			}
			if !g.outside(pid) {
				break
			}
			return refusal.New("unmap it while checkpoints are taken, or use -cr=self", "shared memory %s at %#x that process %d has, too", m.Path, m.Start, pid)
		}
	}
	return nil
}

// isCopy tells a copy of a process, of an earlier image.
func isCopy(pid int) bool {
	s, err := proc.Parsed(pid, "status", proc.ParseStatus)
	return err != nil || trace.IsOurThread(s.Tracer)
}

// checkNames refuses a mapped file that has another name, where that can be seen.
func (g *Target) checkNames(m *proc.Mapping) error {
	var st unix.Stat_t
	if writes(m) || strings.HasPrefix(m.Path, "/memfd:") || unix.Stat(fmt.Sprintf("/proc/%d/map_files/%x-%x", g.PID, m.Start, m.End), &st) != nil || st.Nlink == 0 {
		return nil
	}
	return refusal.New("open it by the name that it has", "the shared mapping of the file %s, which has another name only", m.Path)
}

// recordShared reads what is not read by a descriptor. Each process of the family may have mapped
// another part.
func (st *stand) recordShared(r *recorder) error {
	f := st.family
	for i := range r.maps {
		m := &r.maps[i]
		if f.written(m) {
			continue
		}
		if w, ok := f.files[m.Inode]; ok && ownShared(m) {
			return refusal.New(writtenRemedy, "shared memory at %#x that has the number (%d) of the mapped file %s", m.Start, m.Inode, w.path)
		}
		if !ownShared(m) || r.has(state.KindFile, m.Inode) {
			continue
		}
		at := slices.IndexFunc(f.contents, func(c content) bool { return c.kind == state.KindShared && c.inode == m.Inode })
		if at < 0 {
			at = len(f.contents)
			f.contents = append(f.contents, content{kind: state.KindShared, name: strconv.FormatUint(m.Inode, 10), inode: m.Inode})
		}
		f.contents[at].data = r.readShared(m, f.contents[at].data)
	}
	return nil
}

// readShared adds what a mapping shows to the content; what lies beyond the end of a file
// shows nothing.
func (r *recorder) readShared(m *proc.Mapping, data []byte) []byte {
	size := m.End - m.Start
	p := make([]byte, size)
	if r.mem.Peek(p, m.Start) != nil {
		n := uint64(0)
		for n < size && r.mem.Peek(p[n:n+pages.Size], m.Start+n) == nil {
			n += pages.Size
		}
		p = p[:n]
	}
	if end := m.Offset + uint64(len(p)); len(p) > 0 && uint64(len(data)) < end {
		data = append(data, make([]byte, end-uint64(len(data)))...)
	}
	copy(data[min(m.Offset, uint64(len(data))):], p)
	return data
}
