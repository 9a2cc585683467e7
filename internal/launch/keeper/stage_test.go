package keeper

import (
	"os"
	"path/filepath"
	"testing"
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
