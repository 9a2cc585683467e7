package bind

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sys is where the kernel describes CPUs.
const Sys = "/sys/devices/system"

// Get returns the CPUs that a thread may use; 0 is the caller.
func Get(tid int) (Set, error) {
	var mask [mostCPUs / 8]byte
	n, _, e := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if e != 0 {
		return nil, os.NewSyscallError("sched_getaffinity", e)
	}
	return bytes.TrimRight(mask[:n], "\x00"), nil
}

// Put binds a thread to CPUs; 0 is the caller.
func Put(tid int, s Set) error {
	if len(s) == 0 {
		return os.NewSyscallError("sched_setaffinity", unix.EINVAL)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(s)), uintptr(unsafe.Pointer(&s[0])))
	if e != 0 {
		return os.NewSyscallError("sched_setaffinity", e)
	}
	return nil
}

// Process binds all threads of a stopped process, except threads whose CPUs differ from those of
// this process: the program has bound these itself.
func Process(pid int, s Set) error {
	own, err := Get(0)
	if err != nil {
		return err
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		now, err := Get(tid)
		if err == nil && now.Equal(own) {
			err = Put(tid, s)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // a thread that has just ended
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	return nil
}
