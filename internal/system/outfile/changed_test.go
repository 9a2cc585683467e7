package outfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestChanged(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, when := range map[string]time.Time{"old": now.Add(-time.Hour), "new": now, "b": now, "b.gorun-1-tail": now} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := Changed(dir, now.Add(-time.Minute))
	if want := []string{filepath.Join(dir, "b"), filepath.Join(dir, "new")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Changed(filepath.Join(dir, "nosuch"), now); got != nil {
		t.Errorf("%q", got)
	}
}
