//go:build linux

package restore

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// rings lists what a process has mapped of memory that it shares with offload processes.
func rings(t *testing.T, pid int) []proc.Mapping {
	t.Helper()
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(maps, func(m proc.Mapping) bool { return !m.Shared || m.Path != state.RingMemory })
}

// TestRings images a process with two such memories, and again when it was restored. Each time both come back where they were, with their
// content, and shared: what is written to the descriptor is seen in memory.
func TestRings(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start("rings", "4")
	tr.next("ready")
	was := rings(t, tr.pid)
	first := tr.image(whole.CaptureOptions{Seq: 1, Track: true})
	tr.target.Committed(1)
	second := tr.image(whole.CaptureOptions{Base: 1, Seq: 2, Track: true})
	for _, path := range []string{first, second, ""} {
		if path == "" {
			path = tr.image(whole.CaptureOptions{}) // of the restored process
		}
		tr.kill()
		tr.restore(path, func(o *whole.RestoreOptions) { o.Base = func(int) image.Source { return image.Path(first) } })
		now := rings(t, tr.pid)
		if len(now) != 2 || now[0].Start != was[0].Start || now[1].Start != was[1].Start || now[0].Inode == now[1].Inode {
			t.Fatalf("restored, it has mapped %+v, before %+v", now, was)
		}
		for _, m := range now {
			checkRing(t, tr.pid, m)
		}
		tr.works(1)
	}
}

// checkRing looks at the content of a ring, and writes to its file.
func checkRing(t *testing.T, pid int, m proc.Mapping) {
	t.Helper()
	mem, err := trace.OpenMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	eighth := (m.End - m.Start) / 8
	for _, at := range []uint64{m.Start, m.Start + eighth, m.Start + 7*eighth} {
		var b [2]byte
		if err := mem.Peek(b[:], at); err != nil || b != [2]byte{7, 0} {
			t.Errorf("at %#x is %v, %v", at, b, err)
		}
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path := dir + "/" + fd.Name()
		var st unix.Stat_t
		if link, _ := os.Readlink(path); !strings.HasPrefix(link, state.RingMemory) || unix.Stat(path, &st) != nil || st.Ino != m.Inode {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{9}, 100)
			f.Close()
		}
		var b [1]byte
		if peeked := mem.Peek(b[:], m.Start+100); err != nil || peeked != nil || b[0] != 9 {
			t.Errorf("what was written to the file is not in memory: %v, %v, %v", b, err, peeked)
		}
		return
	}
	t.Errorf("no descriptor of the memory at %#x", m.Start)
}
