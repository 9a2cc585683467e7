package native

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/cr/whole"
)

func TestNamesInProc(t *testing.T) {
	for path, want := range map[string]string{
		"/proc/7":                    "/proc/self",
		"/proc/7/stat":               "/proc/self/stat",
		"/proc/7/fdinfo/3":           "/proc/self/fdinfo/3",
		"/proc/7/task/7/stat":        "/proc/thread-self/stat",
		"/proc/7/task/7":             "/proc/thread-self",
		"/proc/7/task/8/stat":        "",
		"/proc/70/stat":              "",
		"/proc/meminfo":              "",
		"/home/proc/7/stat":          "",
		"/proc/sys/kernel/ostype":    "",
		"/proc/99999999999999999999": "",
	} {
		if got := ownProc(7, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for path, refused := range map[string]bool{"/proc/7/stat": false, "/proc/8": true, "/proc/7/task/8/stat": true, "/proc/meminfo": false} {
		if err := checkProc(7, path); (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwnProcFiles: a process that had files of its own in /proc open has those of
// the new one, twice in a row.
func TestOwnProcFiles(t *testing.T) {
	tr := newTrip(t, build(t, "odd", "default"))
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
