//go:build linux

package restore

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// transportMappings lists what a process has mapped of shared transport memory.
func transportMappings(t *testing.T, pid int) []proc.Mapping {
	t.Helper()
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(maps, func(m proc.Mapping) bool { return !m.Shared || m.Path != "/memfd:gorun-shm" })
}

// TestTransportMemory images a process with shared memory of the transport, of its
// own and of a peer: neither it nor the peer's notices, and after a restore private
// memory without content stands in its place.
func TestTransportMemory(t *testing.T) {
	fd, err := unix.MemfdCreate("gorun-shm", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 8192); err != nil {
		t.Fatal(err)
	}
	ours, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(ours)
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start("shm", "peer", "4")
	tr.next("ready")
	shared := transportMappings(t, tr.pid)
	if len(shared) != 2 || ours[0] != 7 {
		t.Fatalf("the program has mapped %+v, the first byte is %d", shared, ours[0])
	}
	img := tr.image(whole.CaptureOptions{Seq: 1, Track: true})
	tr.works(1)
	tr.target.Committed(1)
	above := tr.image(whole.CaptureOptions{Base: 1, Seq: 2, Track: true})
	checkShared(t, stateOf(t, img), shared)
	tr.works(2)
	if now := transportMappings(t, tr.pid); len(now) != 2 || ours[0] != 7 {
		t.Errorf("after two images it has mapped %+v, the first byte is %d", now, ours[0])
	}
	for _, path := range []string{img, above} {
		tr.kill()
		tr.restore(path, func(o *whole.RestoreOptions) { o.Base = func(int) image.Source { return image.Path(img) } })
		if now := transportMappings(t, tr.pid); len(now) != 0 {
			t.Errorf("restored, it has mapped %+v", now)
		}
		checkPrivate(t, tr.pid, shared)
		tr.works(3)
		if ours[0] != 7 {
			t.Error("the peer's memory has changed")
		}
	}
	checkPrivate(t, tr.pid, shared)
	checkShared(t, stateOf(t, tr.image(whole.CaptureOptions{})), shared)
}

// checkShared looks how an image describes shared memory, and whether it is small.
func checkShared(t *testing.T, s *state.State, shared []proc.Mapping) {
	t.Helper()
	for _, m := range shared {
		i := slices.IndexFunc(s.Regions, func(r state.Region) bool { return r.Start <= m.Start && m.End <= r.End })
		if i < 0 || s.Regions[i].Shared || s.Regions[i].Path != "" || s.Regions[i].Prot != m.Prot {
			t.Errorf("memory at %#x is not described", m.Start)
		}
	}
	for _, f := range s.Files {
		if strings.Contains(f.Path, "gorun-shm") || f.Deleted {
			t.Errorf("descriptor %+v", f)
		}
	}
}

// checkPrivate looks whether a process has private memory of zeros there, which can
// be written to.
func checkPrivate(t *testing.T, pid int, shared []proc.Mapping) {
	t.Helper()
	mem, err := trace.OpenMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for _, m := range shared {
		p := make([]byte, pages.Size)
		for _, at := range []uint64{m.Start, m.Start + (m.End-m.Start)/8&^(pages.Size-1), m.End - pages.Size} {
			if err := mem.Peek(p, at); err != nil || !bytes.Equal(p, nativetest.ZeroPage[:]) {
				t.Errorf("memory at %#x: %v, %x", at, err, p[:8])
			}
		}
		for _, b := range []byte{7, 0} {
			if err := mem.Poke([]byte{b}, m.Start); err != nil {
				t.Error(err)
			}
		}
	}
}
