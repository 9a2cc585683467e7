package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "not", "there", "yet")
	if err := writable(deep); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(deep)); err == nil {
		t.Error("a folder was made")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if err := writable(dir); err == nil || err.Error() != file+" is not a folder" {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if os.Getuid() == 0 {
		return // may write anywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if err := writable(deep); err == nil || !strings.Contains(err.Error(), dir+" is not writable: ") {
		t.Error(err)
	}
}
