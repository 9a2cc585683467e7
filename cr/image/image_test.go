package image

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

type part struct {
	name, kind, typ string
	data            []byte
}

// write makes an image of the parts and fails the test if that fails.
func write(t testing.TB, path string, m Meta, opt Options, parts []part) Summary {
	t.Helper()
	w, err := Create(path, m, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		if i%2 == 0 {
			err = w.Section(p.name, p.kind, p.typ, p.data)
		} else {
			err = w.SectionFrom(p.name, p.kind, p.typ, uint64(len(p.data)), bytes.NewReader(p.data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// data makes n bytes of the given sort: zero, text, noise, or a mix by pieces.
func data(sort string, n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, n)
	for i := 0; i < n; {
		piece := min(n-i, 1+r.IntN(20_000))
		s := sort
		if s == "mix" {
			s = []string{"zero", "text", "noise"}[r.IntN(3)]
		}
		for k := i; k < i+piece; k++ {
			switch s {
			case "text":
				p[k] = "ab"[k/7%2]
			case "noise":
				p[k] = byte(r.Uint32())
			}
		}
		i += piece
	}
	return p
}

func testMeta() Meta {
	m := LocalMeta()
	m.Job, m.Incarnation, m.Rank, m.Size, m.Seq, m.Backend = "j", "i", 1, 4, 7, "self"
	m.Contexts = map[string]string{"1": "world"}
	return m
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		opt := Options{
			Codec:     rapid.SampledFrom([]Codec{"", None, Snappy, Zstd}).Draw(rt, "codec"),
			Workers:   rapid.IntRange(0, 4).Draw(rt, "workers"),
			BlockSize: rapid.SampledFrom([]int{4096, 8192, 64 << 10, 1 << 20}).Draw(rt, "block"),
			NoDirect:  rapid.Bool().Draw(rt, "cached"),
		}
		var parts []part
		for i := range rapid.IntRange(0, 6).Draw(rt, "sections") {
			sort := rapid.SampledFrom([]string{"zero", "text", "noise", "mix"}).Draw(rt, "sort")
			n := rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(4090, 4100), rapid.IntRange(0, 300_000)).Draw(rt, "size")
			parts = append(parts, part{fmt.Sprint("s", i), "k", "[]uint8", data(sort, n, uint64(i))})
		}
		path := filepath.Join(dir, "img")
		sum := write(t, path, testMeta(), opt, parts)
		r, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		if err := r.Verify(); err != nil {
			rt.Fatal(err)
		}
		if r.Digest() != sum.Digest || r.Size() != sum.Size || len(r.Sections()) != len(parts) {
			rt.Fatalf("%+v against digest %s, size %d", sum, r.Digest(), r.Size())
		}
		for _, p := range parts {
			got := make([]byte, len(p.data))
			got = append(got, 1)[:len(p.data)] // old content must not shine through
			for i := range got {
				got[i] = 0xff
			}
			if err := r.ReadSection(p.kind, p.name, got); err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(got, p.data) {
				rt.Fatalf("section %s differs", p.name)
			}
		}
		if m := r.Meta(); m.Job != "j" || m.Rank != 1 || m.Contexts["1"] != "world" {
			rt.Fatalf("meta %+v", m)
		}
		leftovers(t, dir, "img")
	})
}

// leftovers fails if the folder holds anything but the names.
func leftovers(t testing.TB, dir string, names ...string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range es {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Fatalf("folder holds %v, want %v", have, names)
	}
}

func TestZeroBlocksLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	sum := write(t, path, testMeta(), Options{}, []part{{"z", "k", "", make([]byte, 64<<20)}})
	if sum.Zero != 64<<20 || sum.Size > 32<<10 {
		t.Fatalf("%+v", sum)
	}
}

func TestIncompressibleIsStoredAsIs(t *testing.T) {
	noise := data("noise", 1<<20, 3)
	for _, c := range []Codec{Snappy, Zstd} {
		path := filepath.Join(t.TempDir(), "img")
		sum := write(t, path, testMeta(), Options{Codec: c}, []part{{"n", "k", "", noise}, {"t", "k", "", data("text", 1<<20, 0)}})
		if sum.Size < 1<<20 || sum.Size > 1<<20+200_000 {
			t.Fatalf("%s: %+v", c, sum)
		}
	}
}

func TestMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	write(t, path, testMeta(), Options{}, nil)
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Fatal(st.Mode(), err)
	}
}

// smallImage has every sort of block and is small enough to damage at each bit.
func smallImage(t testing.TB) []byte {
	path := filepath.Join(t.TempDir(), "img")
	write(t, path, Meta{Job: "j"}, Options{Codec: Zstd, BlockSize: 4096, Workers: 1}, []part{
		{"noise", "k", "[]uint8", data("noise", 300, 1)},
		{"text", "k", "string", data("text", 6000, 1)},
		{"zero", "k", "string", make([]byte, 5000)},
	})
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// check opens and verifies an image in memory.
func check(p []byte) error {
	r, err := NewReader(bytes.NewReader(p), int64(len(p)), "mem")
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verify()
}

func TestEveryBitFlipIsDetected(t *testing.T) {
	p := smallImage(t)
	if err := check(p); err != nil {
		t.Fatal(err)
	}
	for i := range p {
		for bit := range 8 {
			if testing.Short() && bit != i%8 {
				continue
			}
			p[i] ^= 1 << bit
			err := check(p)
			if err == nil {
				t.Fatalf("bit %d of byte %d of %d flipped and not seen", bit, i, len(p))
			}
			if !isNamed(err) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
			p[i] ^= 1 << bit
		}
	}
}

func isNamed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Path == "mem" && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTruncated) ||
		errors.Is(err, ErrNotImage) || errors.Is(err, ErrVersion) || errors.Is(err, ErrTooLarge))
}

func TestTruncationAtEveryLength(t *testing.T) {
	p := smallImage(t)
	for n := range p {
		if err := check(p[:n]); !errors.Is(err, ErrTruncated) {
			// A cut can leave bytes that look like an end mark only by accident.
			t.Fatalf("cut to %d of %d: %v", n, len(p), err)
		}
	}
	if err := check(append(p[:len(p):len(p)], 0)); err == nil {
		t.Fatal("a byte too many is not seen")
	}
}

func TestNotAnImageAndNewerVersion(t *testing.T) {
	if err := check([]byte("\x7fELF and so on, long enough for a header")); !errors.Is(err, ErrNotImage) {
		t.Error(err)
	}
	p := smallImage(t)
	p[8] = Version + 1
	le.PutUint32(p[28:], checksum(p[:28]))
	if err := check(p); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotImage) {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestDamagedSectionIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "img")
	write(t, path, testMeta(), Options{}, []part{{"a", "k", "", data("noise", 100_000, 1)}, {"b", "k", "", data("noise", 100_000, 2)}})
	p, _ := os.ReadFile(path)
	p[bytes.Index(p, data("noise", 100_000, 2)[:16])+50_000] ^= 4
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(path)
	var e *Error
	if !errors.As(err, &e) || e.Section != "b" || e.Path != path || !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestDuplicateSection(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "img"), testMeta(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Section("a", "k", "", nil)
	if w.Section("a", "k", "", nil) == nil {
		t.Error("accepted twice")
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	leftovers(t, dir)
}

// stall is a source that closes the cancel channel at a given read.
type stall struct {
	at     int64
	cancel chan struct{}
}

func (s *stall) ReadAt(p []byte, off int64) (int, error) {
	if off == s.at {
		close(s.cancel)
	}
	for i := range p {
		p[i] = byte(i) | 1
	}
	return len(p), nil
}

func TestCancelRemovesPartialFile(t *testing.T) {
	for _, workers := range []int{1, 3} {
		dir := t.TempDir()
		cancel := make(chan struct{})
		w, err := Create(filepath.Join(dir, "img"), testMeta(), Options{Workers: workers, BlockSize: 64 << 10, Cancel: cancel})
		if err != nil {
			t.Fatal(err)
		}
		err = w.SectionFrom("a", "k", "", 8<<20, &stall{1 << 20, cancel})
		if err != nil && !errors.Is(err, ErrCanceled) {
			t.Fatal(err)
		}
		if _, err := w.Commit(); !errors.Is(err, ErrCanceled) {
			t.Fatal(err)
		}
		leftovers(t, dir)
	}
}

// badSource fails half-way.
type badSource struct{}

func (badSource) ReadAt(p []byte, off int64) (int, error) {
	if off > 1<<20 {
		return 0, unix.EIO
	}
	clear(p)
	return len(p), nil
}

func TestSourceFailureRemovesPartialFile(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "img"), testMeta(), Options{BlockSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	w.SectionFrom("a", "k", "", 8<<20, badSource{})
	if _, err := w.Commit(); !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	leftovers(t, dir)
}

func TestProgressReachesTheEnd(t *testing.T) {
	var last uint64
	opt := Options{BlockSize: 4096, Progress: func(n uint64) {
		if n <= last {
			t.Errorf("progress from %d to %d", last, n)
		}
		last = n
	}}
	sum := write(t, filepath.Join(t.TempDir(), "img"), testMeta(), opt, []part{{"a", "k", "", data("mix", 500_000, 9)}})
	if last != 500_000 || sum.Raw != last {
		t.Fatal(last, sum)
	}
}

// TestDiskFull needs a file system that fills up: a small tmpfs, which only
// root may mount.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a tmpfs here:", err)
	}
	defer unix.Unmount(dir, 0)
	path := filepath.Join(dir, "img")
	w, err := Create(path, testMeta(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Section("big", "k", "", data("noise", 8<<20, 1))
	_, err = w.Commit()
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "free space") {
		t.Fatal(err)
	}
	leftovers(t, dir)
}

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Skip("cannot mount a tmpfs here:", err)
	}
	defer unix.Unmount(dir, 0)
	_, err := Create(filepath.Join(dir, "img"), testMeta(), Options{})
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "another one") {
		t.Fatal(err)
	}
}
