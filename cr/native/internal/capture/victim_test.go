//go:build amd64

package capture

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(agentVar); program != "" {
		agentMain(program)
	}
	nativetest.Main(m)
}

// victim is a program that is attached to.
type victim struct {
	*nativetest.Victim
	target *Target
}

func newVictim(t testing.TB, a *Agent, what ...string) *victim {
	t.Helper()
	return startVictim(t, a, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, what...)
}

func startVictim(t testing.TB, a *Agent, attr *syscall.SysProcAttr, what ...string) *victim {
	t.Helper()
	v := &victim{Victim: nativetest.StartVictim(t, a.threads.Do, attr, what...)}
	var err error
	if v.target, err = attachTo(a, v.PID, 7, 3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.target.Close() })
	return v
}

// attachTo attaches to a program whose streams are what it was given.
func attachTo(a *Agent, pid, rank, oob int) (*Target, error) {
	std, closeAll := nativetest.StreamsOf(pid)
	defer closeAll()
	return a.Attach(pid, rank, oob, std)
}

// capture images the program and returns what the image holds.
func (v *victim) capture(opt whole.CaptureOptions) (*state.State, *image.Reader) {
	v.T.Helper()
	c, err := v.target.capture(opt)
	if err != nil {
		v.T.Fatal(err)
	}
	defer c.Release()
	return v.write(c)
}

func (v *victim) write(c *captured) (*state.State, *image.Reader) {
	v.T.Helper()
	path := filepath.Join(v.T.TempDir(), "image")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{}); err != nil {
		v.T.Fatal(err)
	}
	pid := c.PID()
	if err := c.Release(); err != nil {
		v.T.Error(err)
	}
	if pid != 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		v.T.Errorf("the copy %d is still there", pid)
	}
	r, err := image.Open(path)
	if err != nil {
		v.T.Fatal(err)
	}
	v.T.Cleanup(func() { r.Close() })
	if err := r.Verify(); err != nil {
		v.T.Error(err)
	}
	s, err := state.Read(image.Path(path))
	if err != nil {
		v.T.Fatal(err)
	}
	return s, r
}
