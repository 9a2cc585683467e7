package mpi

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/native"
)

// house is where a test runs jobs.
type house struct {
	t          *testing.T
	dir, run   string
	gorun, exe string
}

// newHouse builds gorun and the example.
func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), run: t.TempDir()}
	if err := os.Chmod(h.run, 0o700); err != nil {
		t.Fatal(err)
	}
	h.gorun, h.exe = filepath.Join(h.dir, "gorun"), filepath.Join(h.dir, "pi")
	for _, args := range [][]string{{"build", "-C", "../..", "-o", h.gorun, "./cmd/gorun"}, {"build", "-o", h.exe, "./example/pi"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return h
}

func (h *house) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), h.gorun, args...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+h.run, "GORUN_REALM="+h.run, "GORUN_CKPT_DIR="+filepath.Join(h.dir, "snapshots"))
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // gorun ends its ranks
	return cmd
}

// output runs a command to its end.
func (h *house) output(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).Output()
	if err != nil {
		h.t.Fatalf("gorun %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// jobID waits until a job has written its id.
func (h *house) jobID(file string) string {
	for {
		if id, err := os.ReadFile(file); err == nil && len(id) > 0 {
			return strings.TrimSpace(string(id))
		}
		select {
		case <-h.t.Context().Done():
			h.t.Fatal("the job has no id")
		case <-time.After(time.Millisecond):
		}
	}
}

// A program for gompi, whose source names nothing of gorun, is checkpointed. One of its ranks is killed, while the
// other waits for a message, and the job goes on by itself to the result of an undisturbed one.
func TestCheckpoint(t *testing.T) {
	if err := (native.Imager{}).Supported(); err != nil {
		t.Skipf("no images of whole processes on this machine: %v", err)
	}
	h := newHouse(t)
	program := []string{h.exe, "-rounds", "20", "-terms", "1000"}
	want := h.output(append([]string{"-np", "2"}, program...)...)
	if !strings.HasPrefix(want, "pi 3.1415") {
		t.Fatalf("undisturbed: %q", want)
	}

	id, free := filepath.Join(h.dir, "job"), filepath.Join(h.dir, "free")
	cmd := h.command(append(append([]string{"-np", "2", "-cr", "-restarts", "1", "-jobid-file", id}, program...), "-hold", free)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	var pid int
	if _, err := fmt.Fscanf(lines, "holding %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	h.output("checkpoint", h.jobID(id))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err == nil {
		err = cmd.Wait()
	}
	// A job that had begun anew would hold again.
	if got := strings.TrimSpace(string(rest)); err != nil || got != want {
		t.Errorf("after the restart: %q, %v; want %q", got, err, want)
	}
}
