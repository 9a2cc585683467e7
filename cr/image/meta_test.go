package image

import (
	"path/filepath"
	"testing"
)

// A program's name is bytes, and Meta is kept as text.
func TestProgramIsBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	for _, name := range []string{"/bin/zoë", "/bin/caf\xe9", "\xff"} {
		m := Meta{Job: "j", Program: name}
		write(t, path, m, Options{NoDirect: true}, nil)
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Meta().Program; got != name {
			t.Errorf("%q came back as %q", name, got)
		}
		r.Close()
	}
}
