package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
)

// TestEndedMeanwhile asks a job that has ended since its record was read: its folder, its socket, or who listens is gone.
func TestEndedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ask := func(what, folder string) {
		r := &Record{Job: "4711", PID: os.Getpid(), folder: folder}
		if _, err := r.ask(t.Context(), Request{Verb: VerbHold}, func(*Reply) {}); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ask("no folder", dir+"/none")
	ask("no socket", dir)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketName)})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	ask("nobody listens", dir)
}
