package restore

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestOwnProcFiles: a process that had files of its own in /proc open has those of
// the new one, twice in a row.
func TestOwnProcFiles(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "odd", "default"))
	tr.start("proc")
	tr.next("ready")
	for range 2 {
		img := tr.image(whole.CaptureOptions{})
		tr.kill()
		tr.restore(img)
	}
	fmt.Fprintln(tr.stdin)
	if got := tr.next("offsets: "); got != "2 3 3" {
		t.Error("offsets", got)
	}
	for range 2 {
		if got := tr.next("own: "); got != "true" {
			t.Error("the file is another process's")
		}
	}
	tr.next("folder: ")
	if got := tr.next("memory: "); got != "<nil> 7" {
		t.Error("memory", got)
	}
}
