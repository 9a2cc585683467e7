package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

func TestDir(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		root := t.TempDir()
		return storetest.Subject{
			Store:   store.OpenDir(root),
			Readers: []store.Reading{store.OpenDir(root)}, // of another process
		}
	})
}

// TestDirLeftovers looks at what is no piece: what a killed writer has left, the catalogue's own files, what is no
// regular file.
func TestDirLeftovers(t *testing.T) {
	root := t.TempDir()
	d := store.OpenDir(root)
	if err := d.Begin(t.Context(), "j/1"); err != nil {
		t.Fatal(err)
	}
	w, err := d.Create(t.Context(), "j/1", "p", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.(store.Filer).File().Close() // its writer was killed
	dir := filepath.Join(root, "j", "1")
	for _, name := range []string{store.SchemaFile, store.LockFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink("/etc/passwd", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if all, err := d.List(t.Context(), "j/1"); len(all) != 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	for _, name := range []string{"folder", "link"} {
		if _, err := d.Stat(t.Context(), "j/1", name); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Open(t.Context(), "j/1", "folder"); !errors.Is(err, store.ErrNotRegular) {
		t.Error(err)
	}
	if err := d.Remove(t.Context(), "j/1"); err != nil {
		t.Fatal(err)
	}
	if es, err := os.ReadDir(filepath.Join(root, "j")); len(es) != 0 || err != nil {
		t.Errorf("%v, %v", es, err)
	}
}

// TestDiskFull writes to a device that is full.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full:", err)
	}
	defer full.Close()
	path := filepath.Join(t.TempDir(), "p")
	w, err := store.CreateFile(path, store.Options{NoDirect: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	// What was open is the full device from now on.
	if err := syscall.Dup3(int(full.Fd()), int(w.File().Fd()), syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(make([]byte, 4096), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing: %v", err)
	}
	if err := w.Commit(4096); err == nil {
		t.Error("committed although the disk is full")
	}
	if es, err := os.ReadDir(filepath.Dir(path)); len(es) != 0 || err != nil {
		t.Errorf("left: %v, %v", es, err)
	}
}
