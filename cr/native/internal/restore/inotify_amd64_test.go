package restore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestWatchedGone: what a program has watched by inotify has to be there, of the kind that it was. Another one of the
// same name is watched instead, and that is told.
func TestWatchedGone(t *testing.T) {
	program, _ := nativetest.BuildC(t, "scenes", "c")
	tr := newTrip(t, program)
	tr.start("inotify_irmap")
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	path := filepath.Join(tr.dir, "a/b/two")
	spare, err := os.Create(path + ".kept") // so that the next one has another inode
	if err != nil {
		t.Fatal(err)
	}
	defer spare.Close()
	refused := func(what string) {
		t.Helper()
		if _, err := tr.tryRestore(img); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v", err)
		}
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	refused("missing")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("another kind")
	if err := errors.Join(os.Remove(path), os.Rename(path+".kept", path)); err != nil {
		t.Fatal(err)
	}
	r := tr.restore(img)
	if !strings.Contains(r.Warn, path+" is another file") {
		t.Errorf("told is %q", r.Warn)
	}
	if _, err := tr.stdin.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	tr.next("passed")
}
