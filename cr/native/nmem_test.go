package native

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

var zeroPage [PageSize]byte

// presentPages lists the pages of a mapping that are there.
func presentPages(t testing.TB, pid int, r *proc.Mapping) []proc.Span {
	t.Helper()
	buf := make([]byte, (r.End-r.Start)/PageSize*8)
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(buf, int64(r.Start/PageSize*8)); err != nil {
		t.Fatal(err)
	}
	return proc.OwnPages(buf)
}

// pageMap is memory that a chain of images is restored into.
type pageMap struct {
	mu    sync.Mutex
	pages map[uint64][]byte
}

func (m *pageMap) poke(p []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := 0; at < len(p); at += PageSize {
		m.pages[addr+uint64(at)] = bytes.Clone(p[at : at+PageSize])
	}
	return nil
}

// ownMemory reads all pages of a process that are its own.
func ownMemory(t *testing.T, pid int) map[uint64][]byte {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	if err != nil {
		t.Fatal(err)
	}
	m := &pageMap{pages: map[uint64][]byte{}}
	for i := range maps {
		r := &maps[i]
		if r.Kernels() || r.Shared {
			continue
		}
		for _, run := range presentPages(t, pid, r) {
			buf := make([]byte, run.N*PageSize)
			start := r.Start + uint64(run.First)*PageSize
			if _, err := mem.ReadAt(buf, int64(start)); err != nil {
				continue // memory without access that was never used
			}
			m.poke(buf, start)
		}
	}
	return m.pages
}
