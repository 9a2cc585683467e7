package freemem

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Less is free where a group above has a limit, and the cache counts as free.
func TestCgroups(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("memory.max", "max\n")
	put("a/memory.max", "1000\n")
	put("a/memory.current", "900\n")
	put("a/memory.stat", "anon 100\ninactive_file 300\n")
	put("a/b/memory.max", "500\n")
	put("a/b/memory.current", "0\n")
	for group, want := range map[string]uint64{"/": math.MaxUint64, "/a": 400, "/a/b": 400, "/a/b/c": 400, "/x": math.MaxUint64} {
		if got := cgroupTwo.free(root, group); got != want {
			t.Errorf("%s: %d free, want %d", group, got, want)
		}
	}
	if n := Free(); n < 1<<20 {
		t.Errorf("%d bytes are free here", n)
	}
}
