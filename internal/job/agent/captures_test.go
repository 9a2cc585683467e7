package agent

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSweepCaptures removes the captures of an agent that has died (no process has so large a number), and nobody else's.
func TestSweepCaptures(t *testing.T) {
	dir := t.TempDir()
	number := func(pid string) string { return capturePrefix + numbersOf() + "-" + pid + "-0-1" }
	kept := map[string]bool{captureName() + "0-1": true, number("1"): true, capturePrefix + "00000000-99999999-0-1": true, ".gorun-device": true}
	swept := []string{number("99999999"), number("99999999") + ".1234.part"}
	for name := range kept {
		write(t, filepath.Join(dir, name))
	}
	for _, name := range swept {
		write(t, filepath.Join(dir, name))
	}
	sweepCaptures(dir)
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !kept[e.Name()] {
			t.Errorf("%s is left", e.Name())
		}
		delete(kept, e.Name())
	}
	for name := range kept {
		t.Errorf("%s is removed", name)
	}
}

func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
