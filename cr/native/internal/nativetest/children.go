//go:build amd64

package nativetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// WaitState waits until a process is in a state, as /proc shows it.
func WaitState(t *testing.T, pid int, state byte) {
	t.Helper()
	testenv.Until(t, func() string {
		s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
		if err != nil {
			t.Fatal(err)
		}
		if s.State != state {
			return fmt.Sprintf("process %d is in state %c", pid, s.State)
		}
		return ""
	})
}

// OwnChildren lists the children of this process.
func OwnChildren(t *testing.T) []string {
	var all []string
	tids, err := proc.Threads(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		p, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", tid))
		all = append(all, strings.Fields(string(p))...)
	}
	return all
}

// LeftChildren describes the children of this process, "" if it has none: what a test that left one wants to know.
func LeftChildren(t *testing.T) string {
	var all []string
	for _, pid := range OwnChildren(t) {
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		all = append(all, fmt.Sprintf("process %s %q\n%s", pid, line, status))
	}
	return strings.Join(all, "\n")
}

// StreamsOf opens what a process has as 0, 1 and 2, to attach to it.
func StreamsOf(pid int) (std [3]int, closeAll func()) {
	for i := range std {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, i), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			fd = -1
		}
		std[i] = fd
	}
	return std, func() {
		for _, fd := range std {
			unix.Close(fd)
		}
	}
}
