package launcher

import (
	"os"
	"path/filepath"
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
	if err := writable(filepath.Join(file, "below")); err == nil {
		t.Error("a folder below a file is writable")
	}
}
