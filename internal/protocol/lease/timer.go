package lease

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now returns the milliseconds of CLOCK_BOOTTIME.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("lease: no CLOCK_BOOTTIME: %v", err)) // Linux has had it since 2.6.39
	}
	return t.Sec*1000 + t.Nsec/1e6
}

// Timer makes the kernel kill this process, all its threads, when Now reaches a time. It
// does not need the process, which may be stopped or frozen by then.
type Timer struct{ id int32 }

// sigevent is the kernel's struct of this name. Its zero says SIGEV_SIGNAL.
type sigevent struct {
	value  uint64
	signal int32
	notify int32
	_      [48]byte
}

// NewTimer returns a timer that is not set.
func NewTimer() (*Timer, error) {
	t := new(Timer)
	event := sigevent{signal: int32(unix.SIGKILL)}
	_, _, e := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&t.id)))
	if e != 0 {
		err := os.NewSyscallError("timer_create", e)
		if e == unix.EAGAIN {
			err = fmt.Errorf("%w: too many timers or signals (ulimit -i)", err)
		}
		return nil, fmt.Errorf("a timer that ends this process with its lease: %w", err)
	}
	return t, nil
}

// itimerspec is the kernel's struct of this name.
type itimerspec struct{ interval, value unix.Timespec }

// timerAbstime is the kernel's TIMER_ABSTIME: the value is a time of the clock.
const timerAbstime = 1

// Set lets the timer kill the process when Now reaches until, instead of at the time set
// before. If that time has passed, the process dies at once.
func (t *Timer) Set(until int64) error {
	until = max(until, 1) // 0 would switch it off
	spec := itimerspec{value: unix.Timespec{Sec: until / 1000, Nsec: until % 1000 * 1e6}}
	_, _, e := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), timerAbstime, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if e != 0 {
		return os.NewSyscallError("timer_settime", e)
	}
	return nil
}

// Stop removes the timer. The process lives on without a lease: only one that cannot act
// any more, or no longer needs one, may do so.
func (t *Timer) Stop() error {
	if _, _, e := unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(t.id), 0, 0); e != 0 {
		return os.NewSyscallError("timer_delete", e)
	}
	return nil
}
