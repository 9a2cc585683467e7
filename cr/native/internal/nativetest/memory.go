package nativetest

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// ZeroPage is a page without content.
var ZeroPage [pages.Size]byte

// PresentPages lists the pages of a mapping that are there.
func PresentPages(t testing.TB, pid int, r *proc.Mapping) []proc.Span {
	t.Helper()
	buf := make([]byte, (r.End-r.Start)/pages.Size*8)
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(buf, int64(r.Start/pages.Size*8)); err != nil {
		t.Fatal(err)
	}
	return proc.OwnPages(buf)
}

// PageMap is memory that a chain of images is restored into.
type PageMap struct {
	mu    sync.Mutex
	Pages map[uint64][]byte
}

// Poke notes whole pages.
func (m *PageMap) Poke(p []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := 0; at < len(p); at += pages.Size {
		m.Pages[addr+uint64(at)] = bytes.Clone(p[at : at+pages.Size])
	}
	return nil
}

// OwnMemory reads all pages of a process that are its own.
func OwnMemory(t *testing.T, pid int) map[uint64][]byte {
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
	m := &PageMap{Pages: map[uint64][]byte{}}
	for i := range maps {
		r := &maps[i]
		if r.Kernels() || r.Shared {
			continue
		}
		for _, run := range PresentPages(t, pid, r) {
			buf := make([]byte, run.N*pages.Size)
			start := r.Start + uint64(run.First)*pages.Size
			if _, err := mem.ReadAt(buf, int64(start)); err != nil {
				continue // memory without access that was never used
			}
			m.Poke(buf, start)
		}
	}
	return m.Pages
}
