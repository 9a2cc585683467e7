package restore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// TestMappedFile has a file that was mapped be the same by its content, wherever it is from; where that is not known, by its inode.
func TestMappedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "library")
	write := func(text string) (inode uint64) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	try := func(r state.Region) error {
		fd, err := new(mappedFiles).openOne(&state.State{Exe: "/program"}, &r, "/program")
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	known := state.Region{Path: path, Inode: write("content")}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // its inode is not given to another
	unknown := known
	if known.Digest, err = state.Digest(f); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(try(known), try(unknown)); err != nil {
		t.Error(err)
	}
	if write("content") == known.Inode {
		t.Fatal("the same inode")
	}
	if err := try(known); err != nil {
		t.Errorf("the same content: %v", err)
	}
	if err := try(unknown); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "replaced by another one") {
		t.Errorf("another file: %v", err)
	}
	write("contents")
	if err := try(known); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "replaced by another one") {
		t.Errorf("another content: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := try(known); !errors.Is(err, ErrFiles) {
		t.Errorf("no file: %v", err)
	}
}
