package shm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// segmentName shows in /proc/PID/maps. The code that images processes knows it.
const segmentName = "gorun-shm"

const segmentSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createSegment makes the memory of this rank. It has no name that could be left behind, and
// no process can shorten it under one that maps it.
func createSegment(size int) (fd int, err error) {
	fd, err = unix.MemfdCreate(segmentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(segmentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, segmentSeals)
	}
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EFBIG) {
			err = fmt.Errorf("%w: raise the limit on files (ulimit -f), which counts for memory that is shared", err)
		}
		return -1, fmt.Errorf("segment of %d bytes: %w", size, err)
	}
	return fd, nil
}

// openSegment opens the segment of another process and makes sure that it has that size and keeps
// it.
func openSegment(pid, fd, size int) (int, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
	f, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(f, &st)
	seals, e := unix.FcntlInt(uintptr(f), unix.F_GET_SEALS, 0)
	if err == nil && (e != nil || seals&segmentSeals != segmentSeals || st.Size != int64(size)) {
		err = fmt.Errorf("%s is not the segment of a rank", path)
	}
	if err != nil {
		unix.Close(f)
		return -1, err
	}
	return f, nil
}

// machine identifies the running kernel and the namespaces and user of this process. Only
// processes that agree in it can use each other's /proc.
func machine() (string, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return "", err
	}
	id := boot
	for _, ns := range []string{"pid", "user"} {
		s, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return "", err
		}
		id += " " + s
	}
	return fmt.Sprintf("%s uid:%d", id, os.Geteuid()), nil
}

const (
	futexWait = 0
	futexWake = 1
)

// sleep waits while the word is v, at most for d. It reports false if that time is over. Unlike
// most calls here it goes through the scheduler, as it blocks.
func sleep(word *uint32, v uint32, d *unix.Timespec) bool {
	_, _, errno := syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(v), uintptr(unsafe.Pointer(d)), 0, 0)
	return errno != unix.ETIMEDOUT
}

// wake wakes a sleeper on the word, in any process.
func wake(word *uint32) {
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}

// processVM copies between this process and another, all pieces in one call.
func processVM(trap uintptr, pid int, local *[2]unix.Iovec, remote *[2]unix.RemoteIovec, n int) (int, syscall.Errno) {
	for {
		got, _, errno := syscall.Syscall6(trap, uintptr(pid), uintptr(unsafe.Pointer(local)), uintptr(n), uintptr(unsafe.Pointer(remote)), uintptr(n), 0)
		if errno != unix.EINTR {
			return int(got), errno
		}
	}
}
