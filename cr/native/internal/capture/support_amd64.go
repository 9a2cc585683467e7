package capture

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Supported says why processes cannot be imaged on this machine, nil if they
// can. The first call tries what matters on a process of its own.
func Supported() error { return tried() }

var tried = sync.OnceValue(func() error {
	for _, need := range []struct {
		what string
		try  func() error
	}{
		{"pidfd_open and pidfd_getfd (Linux 5.6)", tryPidfd},
		{"close_range (Linux 5.9)", tryCloseRange},
		{"/proc/PID/pagemap", tryPagemap},
		{"ptrace of child processes", tryTrace},
	} {
		if err := need.try(); err != nil {
			return fmt.Errorf("%w: %s: %w%s (use -cr=self)", refusal.ErrUnsupported, need.what, err, yamaNote(err))
		}
	}
	return nil
})

// Features lists the optional features of this machine.
func Features() []whole.Feature {
	return []whole.Feature{
		{Name: "incremental images (userfaultfd, PAGEMAP_SCAN)", Err: dirty.Supported()},
		{Name: "same open files told apart (kcmp)", Err: tryKcmp()},
		{Name: "child processes known by /proc", Err: tryFile("/proc/thread-self/children")},
		{Name: "POSIX timers known by /proc", Err: tryFile("/proc/self/timers")},
		{Name: "same process and thread ids after a restore (namespaces)", Err: trace.SameIDs()},
		{Name: "System V shared memory after a restore (namespaces)", Err: trace.SameSysV()},
		{Name: "pseudo-terminals with their numbers after a restore (namespaces)", Err: trace.SameTerminals()},
		{Name: "time namespaces", Err: tryFile("/proc/self/ns/time")},
	}
}

func tryFile(path string) error {
	_, err := os.Stat(path)
	return err
}

func tryKcmp() error {
	const file = 0 // KCMP_FILE
	pid := uintptr(os.Getpid())
	_, _, e := unix.RawSyscall6(unix.SYS_KCMP, pid, pid, file, 0, 0, 0)
	if e != 0 && e != unix.EBADF {
		return e
	}
	return nil
}

func tryPidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	copied, err := unix.PidfdGetfd(fd, fd, 0)
	if err == nil {
		unix.Close(copied)
	}
	return err
}

func tryCloseRange() error {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.CloseRange(uint(fd), uint(fd), 0); err != nil {
		unix.Close(fd)
		return err
	}
	return nil
}

func tryPagemap() error {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return err
	}
	return f.Close()
}

// tryTrace starts this program once more, stopped before its first instruction,
// looks at it as a capture does and ends it.
func tryTrace() error {
	t := trace.NewThreads(1)
	defer t.Close()
	var err error
	t.Do(func() { err = trace.Newborn("/proc/self/exe", tryStopped) })
	return err
}

func tryStopped(pid int) error {
	if s, err := trace.WaitStop(pid, 10*time.Second); err != nil || s.Exited {
		return errors.Join(err, fmt.Errorf("the process tried on %v", s))
	}
	if _, err := trace.GetRegs(pid); err != nil {
		return fmt.Errorf("registers: %w", err)
	}
	if _, err := trace.GetXState(pid); err != nil {
		return fmt.Errorf("vector registers: %w", err)
	}
	if _, err := trace.GetMask(pid); err != nil {
		return fmt.Errorf("signal mask (CONFIG_CHECKPOINT_RESTORE): %w", err)
	}
	if _, err := trace.Pending(pid, true); err != nil {
		return fmt.Errorf("pending signals: %w", err)
	}
	m, err := trace.OpenMemory(pid)
	if err != nil {
		return err
	}
	m.Close()
	if err := trace.Detach(pid, int(unix.SIGKILL)); err != nil {
		return err
	}
	return nil
}

// yamaNote names the setting that forbids tracing.
func yamaNote(err error) string {
	if !errors.Is(err, unix.EPERM) {
		return ""
	}
	p, e := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if s := strings.TrimSpace(string(p)); e == nil && s >= "2" {
		return fmt.Sprintf(" (kernel.yama.ptrace_scope is %s; 0 or 1 is needed)", s)
	}
	return " (a container or a security module forbids it)"
}
