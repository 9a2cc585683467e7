package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mount gives a small file system of its own, or skips.
func mount(t *testing.T, flags uintptr, options string) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skip("cannot mount a tmpfs here:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return dir
}

// fillUp takes what room is left.
func fillUp(f *os.File) {
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func TestDiskFull(t *testing.T) {
	dir := mount(t, 0, "size=256k")
	c, _ := Open(dir)
	old := commit(t, c, jobA, 1)
	p := begin(t, c, jobA)
	s := writeImages(t, p, 1)
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	fillUp(fill)
	_, _, err = p.Commit(s)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), p.Dir) || !strings.Contains(err.Error(), "free space") {
		t.Fatal(err)
	}
	if err := p.Discard(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Latest(jobA); err != nil || got.Dir != old.Dir || got.Verify(nil) != nil {
		t.Fatal(got, err)
	}
	fillUp(fill)
	if _, err := c.Begin(jobA); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
}

func TestReadOnly(t *testing.T) {
	dir := mount(t, 0, "size=1m")
	c, _ := Open(dir)
	s := commit(t, c, jobA, 1)
	bare := commit(t, c, jobA, 1)
	os.Remove(filepath.Join(bare.Dir, lockFile))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin(jobB); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "writable") {
		t.Error(err)
	}
	if _, err := c.Begin(jobA); !errors.Is(err, unix.EROFS) {
		t.Error(err)
	}
	for _, s := range []*Snapshot{s, bare} { // restarting from it works
		if err := s.Verify(nil); err != nil {
			t.Error(err)
		}
		h, err := s.Hold()
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
}
