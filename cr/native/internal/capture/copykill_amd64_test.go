package capture

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestCopyKilledYoung: a copy that is killed in its first moments is not taken for the
// process, which goes on.
func TestCopyKilledYoung(t *testing.T) {
	tr := testAgent(t)
	v := newVictim(t, tr, "16", "spin", "threads")
	v.capture(whole.CaptureOptions{}) // starts another process, to see what one is born with
	path, own := filepath.Join(t.TempDir(), "image"), strconv.Itoa(v.PID)
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, pid := range nativetest.OwnChildren(t) {
				if n, err := strconv.Atoi(pid); err == nil && pid != own {
					unix.Kill(n, unix.SIGKILL)
				}
			}
		}
	}()
	died := 0
	for range 60 {
		c, err := v.target.capture(whole.CaptureOptions{})
		if err == nil {
			_, err = c.Write(image.Path(path), image.LocalMeta(), image.Options{})
			if err := c.Release(); err != nil {
				t.Error(err)
			}
		}
		if errors.Is(err, errCopyDied) {
			died++
		}
		if err != nil && (errors.Is(err, whole.ErrDied) || !errors.Is(err, errCopyDied)) {
			t.Error(err)
		}
		v.Works()
	}
	close(stop)
	<-stopped
	if died == 0 {
		t.Error("none was killed")
	}
}
