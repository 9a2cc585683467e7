package restore

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// goneFolder is a folder that is made for a moment: a process must be in it, or have it
// open, when it is deleted again.
type goneFolder struct{ path string }

// makeGone makes one, where the old one was if there is nothing now.
func makeGone(path string) (goneFolder, error) {
	const usual = 0o755
	if os.Mkdir(path, usual) == nil {
		return goneFolder{path}, nil
	}
	for _, parent := range []string{filepath.Dir(path), ""} {
		if temporary, err := os.MkdirTemp(parent, "gone"); err == nil {
			return goneFolder{temporary}, nil
		} else if parent == "" {
			return goneFolder{}, fileError(path, "make room for a temporary folder", "a folder that was deleted: %w", err)
		}
	}
	return goneFolder{}, nil
}

// or gives the folder, or another if there is none.
func (g *goneFolder) or(other string) string {
	if g.path == "" {
		return other
	}
	return g.path
}

func (g *goneFolder) remove() {
	if g.path != "" {
		os.Remove(g.path)
		g.path = ""
	}
}

// makeGoneFolder opens a folder that was deleted.
func (d *descriptors) makeGoneFolder(f *state.File) (int, error) {
	g, err := makeGone(f.Path)
	if err != nil {
		return -1, err
	}
	defer g.remove()
	return d.keep(unix.Open(g.path, openFlags(f.Flags)|unix.O_DIRECTORY, 0))
}
