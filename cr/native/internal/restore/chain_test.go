package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// fakeMemory takes what a restore writes.
type fakeMemory struct {
	mu    sync.Mutex
	bytes map[uint64]byte // one byte for each page
}

func (m *fakeMemory) Poke(p []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes == nil {
		m.bytes = make(map[uint64]byte)
	}
	for ; len(p) > 0; p, addr = p[pages.Size:], addr+pages.Size {
		if _, twice := m.bytes[addr]; twice {
			return fmt.Errorf("page %#x is written twice", addr)
		}
		m.bytes[addr] = p[0]
		if p[pages.Size-1] != p[0] {
			return errors.New("pages are shifted")
		}
	}
	return nil
}

// testState is a valid state with the regions given.
func testState(base int, regions ...state.Region) *state.State {
	return &state.State{
		PID: 100, Base: base, Exe: "/bin/program", Dir: "/", Regions: regions,
		Threads: []state.Thread{{TID: 100, Regs: make([]byte, state.RegsSize), XState: make([]byte, state.XStateHeader)}},
	}
}

// writeImage writes an image with the windows given: for each the type and one
// byte for every page of data.
func writeImage(t *testing.T, seq int, s *state.State, windows map[uint64][2]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("rank0-%d.img", seq))
	m := image.LocalMeta()
	m.Backend, m.Format, m.Job, m.Seq, m.Arch = "native", state.Format, "job", seq, "amd64"
	w, err := image.Create(path, m, image.Options{Passing: true, NoFolder: true, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Section(state.SectionName, state.KindProcess, "", p); err != nil {
		t.Fatal(err)
	}
	for base, c := range windows {
		var data []byte
		for _, b := range []byte(c[1]) {
			data = append(data, bytes.Repeat([]byte{b}, pages.Size)...)
		}
		if err := w.Section(fmt.Sprintf("%012x", base), state.KindPages, c[0], data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChain(t *testing.T) {
	const a, b = 0xc000000000, 0xc000000000 + pages.Window
	regions := []state.Region{
		{Start: 0x400000, End: 0x404000, Prot: 3, Path: "/bin/program"},
		{Start: a, End: b + 2*pages.Window, Prot: 3},
	}
	paths := map[int]string{
		1: writeImage(t, 1, testState(0, regions...), map[uint64][2]string{
			0x400000: {"z0+1 d1+2", "PQ"},
			a:        {"d0+4 z4+2 d6+1", "ABCDE"},
			b:        {"d10+2", "FG"},
		}),
		2: writeImage(t, 2, testState(1, regions...), map[uint64][2]string{
			0x400000: {"b0+3", ""},
			a:        {"d0+1 b1+1 b3+3 z6+1", "a"}, // page 2 was given back
			b:        {"d0+1 b10+1 b20+5", "f"},    // 11 was given back, 20 to 24 were never written
		}),
	}
	paths[3] = writeImage(t, 3, testState(2, regions...), map[uint64][2]string{
		0x400000: {"b0+2 d2+1", "R"},
		a:        {"b0+2 d3+1 b4+2", "x"},
		b:        {"b0+1 d10+1", "y"},
	})
	for _, c := range []struct {
		seq  int
		want map[uint64]byte
	}{
		{1, map[uint64]byte{0x400000: 0, 0x401000: 'P', 0x402000: 'Q', a: 'A', a + 0x1000: 'B', a + 0x2000: 'C', a + 0x3000: 'D', a + 0x6000: 'E',
			b + 0xa000: 'F', b + 0xb000: 'G'}},
		{2, map[uint64]byte{0x400000: 0, 0x401000: 'P', 0x402000: 'Q', a: 'a', a + 0x1000: 'B', a + 0x3000: 'D', b: 'f', b + 0xa000: 'F'}},
		{3, map[uint64]byte{0x400000: 0, 0x401000: 'P', 0x402000: 'R', a: 'a', a + 0x1000: 'B', a + 0x3000: 'x', b: 'f', b + 0xa000: 'y'}},
	} {
		images, err := openChain(image.Path(paths[c.seq]), 0, func(seq int) image.Source { return image.Path(paths[seq]) })
		if err != nil {
			t.Fatal(err)
		}
		windows, _, err := images.plan()
		if err != nil {
			t.Fatal(err)
		}
		var m fakeMemory
		if err := images.fill(&m, windows, nil); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(m.bytes), fmt.Sprint(c.want); got != want {
			t.Errorf("image %d:\n got %s\nwant %s", c.seq, got, want)
		}
		images.Close()
	}
}

func TestChainRefused(t *testing.T) {
	region := state.Region{Start: 0xc000000000, End: 0xc000002000, Prot: 3}
	window := func(typ, data string) map[uint64][2]string {
		return map[uint64][2]string{0xc000000000: {typ, data}}
	}
	full := writeImage(t, 1, testState(0, region), window("d0+1", "A"))
	for _, c := range []struct {
		name, path string
		base       string
		rank       int
		want       string
	}{
		{"rank", full, "", 1, "of rank 0, not 1"},
		{"no base", writeImage(t, 2, testState(1, region), nil), "", 0, "builds on snapshot 1"},
		{"wrong base", writeImage(t, 3, testState(2, region), nil), full, 0, "where 2 of job job was wanted"},
		{"itself", writeImage(t, 1, testState(1, region), nil), full, 0, "snapshot 1"},
		{"below the last", writeImage(t, 2, testState(0, region), window("b0+1", "")), "", 0, "below the last"},
		{"too little data", writeImage(t, 2, testState(0, region), window("d0+2", "A")), "", 0, "2 pages are named"},
		{"outside", writeImage(t, 2, testState(0, region), window("d1+2", "AB")), "", 0, "in no region"},
		{"empty region", writeImage(t, 2, testState(0, state.Region{Start: region.Start, End: region.End, Empty: true}), window("d0+1", "A")), "", 0, "in no region"},
		{"state", writeImage(t, 2, &state.State{}, nil), "", 0, "process id 0"},
	} {
		base := func(int) image.Source { return image.Path(c.base) }
		if c.base == "" {
			base = func(int) image.Source { return nil }
		}
		images, err := openChain(image.Path(c.path), c.rank, base)
		if err == nil {
			_, _, err = images.plan()
			images.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.name, err, c.want)
		}
	}
}

func TestReadStateOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "self.img")
	m := image.LocalMeta()
	m.Backend = "self"
	w, err := image.Create(path, m, image.Options{NoFolder: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Read(image.Path(path)); !errors.Is(err, state.ErrImage) {
		t.Errorf("an image of another back-end: %v", err)
	}
	if _, err := state.Read(image.Path(filepath.Join(t.TempDir(), "none"))); err == nil {
		t.Error("an image that is not there")
	}
}
