package restore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestRestoreWait makes a process that waits: it says nothing and cuts no file
// before it is let go, and nothing is left if it is ended.
func TestRestoreWait(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "trip", "default"))
	path := filepath.Join(tr.dir, "log")
	tr.start("200", "400", path)
	walk := func(n int) { // it needs leave for each step
		unix.Write(tr.oob, bytes.Repeat([]byte("."), n))
		for range n {
			tr.next("step ")
		}
	}
	walk(10)
	img := tr.image(whole.CaptureOptions{})
	walk(5)
	tr.kill()
	grown := read(t, path)

	for _, killed := range []bool{false, true} {
		back := tr.stand(img)
		if killed {
			syscall.Kill(back.PID, syscall.SIGKILL)
			nativetest.WaitState(t, back.PID, 'Z') // how it shows that somebody has killed it
		}
		if err := errors.Join(back.End(), back.End()); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(back.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("it has been ended: %v", err)
		}
		tr.kill()
	}

	back := tr.stand(img)
	syscall.Kill(back.PID, syscall.SIGKILL)
	if err := back.Go(); err == nil || !strings.Contains(err.Error(), img) {
		t.Errorf("it has been killed: %v", err)
	}
	tr.kill()
	tails, _ := filepath.Glob(path + ".gorun-*")
	if read(t, path) != grown || len(tails) > 0 {
		t.Errorf("a process that was not let go has changed its file, or left %v", tails)
	}

	back = tr.stand(img)
	if err := back.Go(); err != nil {
		t.Fatal(err)
	}
	unix.Write(tr.oob, bytes.Repeat([]byte("."), 190))
	tr.next("sum ")
	if tail, err := os.ReadFile(path + ".gorun-tag-tail"); err != nil || !strings.HasSuffix(grown, string(tail)) || len(tail) == 0 {
		t.Errorf("the tail is %q: %v", tail, err)
	}
}
