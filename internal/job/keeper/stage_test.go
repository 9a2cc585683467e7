package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// TestSweep: what dead keepers have left goes, and nothing else.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, dead := newStage(), newStage()
	for _, s := range []*stage{&alive, &dead} {
		if err := s.hold(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "program"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dead.held.Close() // as when its process ends
	sweep()
	if _, err := os.Stat(dead.dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead keeper is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(alive.dir, "program")); err != nil {
		t.Error(err)
	}
	if err := alive.remove(); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestSweepStrangers: whatever another user has put under such a name, no keeper waits for it, follows it or removes it.
func TestSweepStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	const stranger = 23002
	t.Setenv("TMPDIR", t.TempDir())
	at := func(n string) string { return filepath.Join(os.TempDir(), stagePrefix+n) }
	precious := filepath.Join(t.TempDir(), "precious")
	err := errors.Join(unix.Mkfifo(at("pipe"), 0o666), os.Mkdir(at("folder"), 0o777), os.Mkdir(precious, 0o700), os.Symlink(precious, at("link")))
	for _, n := range []string{"pipe", "folder", "link"} {
		err = errors.Join(err, os.Lchown(at(n), stranger, stranger))
	}
	if err != nil {
		t.Fatal(err)
	}
	sweep()
	for _, path := range []string{at("pipe"), at("folder"), at("link"), precious} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	s := stage{dir: at("folder")} // as if he had guessed the name
	if err := s.hold(); !errors.Is(err, owned.ErrForeign) {
		t.Errorf("a folder of another user: %v, want ErrForeign", err)
	}
	if err := s.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(at("folder")); err != nil {
		t.Error(err)
	}
	if same, err := same(at("pipe"), &wire.Provision{}); same || err != nil {
		t.Errorf("a pipe in the place of a program: %v, %v", same, err)
	}
}
