package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file is locked by whatever descriptor, and another one is not.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	open := func(name string) int {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	l, err := Take(open(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(open(path)); !errors.Is(err, ErrLocked) {
		t.Errorf("it is locked twice: %v", err)
	}
	other, err := Take(open(path + "2"))
	if err != nil {
		t.Fatal(err)
	}
	other.Give()
	l.Give()
	again, err := Take(open(path))
	if err != nil {
		t.Fatal(err)
	}
	again.Give()
}
