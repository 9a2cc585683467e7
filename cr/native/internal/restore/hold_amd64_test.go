package restore

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestKilledStanding captures a program that prints, without a copy, and kills it
// where it stands: what it goes on to print when restored has no gap and no repeat.
func TestKilledStanding(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start("count")
	tr.next("count 20")
	c, err := tr.target.Capture(whole.CaptureOptions{NoFork: true})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tr.dir, "image")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{NoFolder: true}); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(tr.pid, syscall.SIGKILL)
	if err := c.Release(); err != nil {
		t.Error(err)
	}
	last := 20
	for line := range tr.lines {
		fmt.Sscanf(line, "count %d", &last)
	}
	tr.kill()
	tr.restore(path)
	var next int
	fmt.Sscan(strings.TrimSpace(tr.next("count ")), &next)
	if next != last+1 {
		t.Errorf("it had counted to %d and goes on with %d", last, next)
	}
}
