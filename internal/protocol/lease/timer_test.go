package lease

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leaseVariable makes the test binary a process that has a lease of so many milliseconds.
const leaseVariable = "LEASE_TEST_MILLIS"

func TestMain(m *testing.M) {
	if ms, err := strconv.ParseInt(os.Getenv(leaseVariable), 10, 64); err == nil {
		fmt.Println(actUntil(ms))
		for { // acts for ever, if nobody ends it
			time.Sleep(time.Hour)
		}
	}
	os.Exit(m.Run())
}

// actUntil gives this process a lease, and then one of another length instead of it.
func actUntil(ms int64) error {
	t, err := NewTimer()
	if err != nil {
		return err
	}
	if err := t.Set(Now() + 3_600_000); err != nil {
		return err
	}
	return t.Set(Now() + ms)
}

// leased starts such a process. It returns when the timer is set, or the process dead.
func leased(t *testing.T, ms int64) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), leaseVariable+"="+strconv.FormatInt(ms, 10))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	// Nothing at all is said by one that was killed before.
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" && line != "" {
		t.Fatal(line)
	}
	return c
}

// killed waits for the process and fails the test unless SIGKILL has ended it.
func killed(t *testing.T, c *exec.Cmd) {
	t.Helper()
	err := c.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(interface{ Signal() syscall.Signal }).Signal() != unix.SIGKILL {
		t.Fatalf("ended with %v, not killed", err)
	}
}

// TestKilled: the kernel ends a process whose lease runs out, and one that has none left.
func TestKilled(t *testing.T) {
	for _, ms := range []int64{200, 0, -1_000_000} {
		killed(t, leased(t, ms))
	}
}

// TestStoppedIsKilled: also one that is stopped, and cannot do anything about it.
func TestStoppedIsKilled(t *testing.T) {
	for ms := int64(200); ; ms *= 2 {
		c := leased(t, ms)
		_ = c.Process.Signal(unix.SIGSTOP)
		stopped := stops(t, c.Process.Pid)
		killed(t, c)
		if stopped {
			return
		}
	} // its lease ran out before it was stopped: a longer one
}

// stops waits until the child has stopped or ended, and reports whether it has stopped.
func stops(t *testing.T, pid int) bool {
	t.Helper()
	var info [128]byte // siginfo_t; si_code is its third word
	for {
		_, _, e := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, 0, 0)
		switch e {
		case unix.EINTR:
			continue
		case 0:
			const cldStopped = 5
			return *(*int32)(unsafe.Pointer(&info[8])) == cldStopped
		}
		t.Fatal(os.NewSyscallError("waitid", e))
	}
}

// TestSetAnew: the last time set is the one that counts, whether later or earlier, and a
// timer that was stopped is gone.
func TestSetAnew(t *testing.T) {
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	const hour = 3_600_000
	for _, hours := range []int64{2, 9, 4} {
		if err := timer.Set(Now() + hours*hour); err != nil {
			t.Fatal(err)
		}
		left, err := timer.left()
		if err != nil || left > hours*hour || left < (hours-1)*hour {
			t.Errorf("set to %d h: %d ms left: %v", hours, left, err)
		}
	}
	if err := timer.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := timer.left(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("after Stop: %v", err)
	}
	if timer.Set(Now()+hour) == nil || timer.Stop() == nil {
		t.Error("a stopped timer can be set or stopped")
	}
}

// left returns in how many milliseconds the timer will kill.
func (t *Timer) left() (int64, error) {
	var spec itimerspec
	if _, _, e := unix.Syscall(unix.SYS_TIMER_GETTIME, uintptr(t.id), uintptr(unsafe.Pointer(&spec)), 0); e != 0 {
		return 0, os.NewSyscallError("timer_gettime", e)
	}
	return spec.value.Sec*1000 + spec.value.Nsec/1e6, nil
}
