//go:build amd64

package trace

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// echoer starts a process that waits for input and ends it with the test.
func echoer(t *testing.T) int {
	t.Helper()
	c := exec.Command("cat")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	// Once it answers, its executable is in place.
	in.Write([]byte{'x'})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

func TestInject(t *testing.T) {
	tr := NewThreads(1)
	defer tr.Close()
	pid := echoer(t)
	mem, err := OpenMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	if err != nil {
		t.Fatal(err)
	}
	text, err := FindSyscall(mem, maps)
	if err != nil {
		t.Fatal(err)
	}
	tr.Do(func() {
		if err := Seize(pid, TraceOptions); err != nil {
			t.Error(err)
			return
		}
		for range 20 {
			if err := Interrupt(pid); err != nil {
				t.Error(err)
			}
			start := time.Now()
			s, err := WaitStop(pid, time.Second)
			if err != nil || s.event != unix.PTRACE_EVENT_STOP {
				t.Error(s, err)
			}
			in, err := Begin(pid, text)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := in.Call(unix.SYS_GETPID)
			if err != nil || int(got) != pid {
				t.Error(got, err)
			}
			if _, err := in.Call(unix.SYS_CLOSE, 1000); err != unix.EBADF {
				t.Error(err)
			}
			if err := in.End(); err != nil {
				t.Error(err)
			}
			if x, err := GetXState(pid); err != nil || len(x) < 576 {
				t.Error(len(x), err)
			}
			if err := Resume(pid, 0); err != nil {
				t.Error(err)
			}
			t.Log(time.Since(start))
		}
	})
	if s, err := proc.Parsed(pid, "stat", procfs.ParseStat); err != nil || s.PPID != os.Getpid() || s.Comm != "cat" {
		t.Error(s, err)
	}
}
