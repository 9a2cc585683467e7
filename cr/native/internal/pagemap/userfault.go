package pagemap

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// Userfault is a userfaultfd of a process. It follows writes to its memory, without
// stopping its threads: the first write to a page since it was protected costs one
// fault within the kernel. Or it fills memory that is empty.
type Userfault struct{ FD int }

// From linux/userfaultfd.h.
const (
	uffdUserModeOnly = 1

	uffdAPI             = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdioWriteProtect  = 0xc018aa06
	uffdioCopy          = 0xc028aa03
	uffdRegisterMissing = 1 << 0
	uffdRegisterWP      = 1 << 1
	uffdFeatureFaultWP  = 1 << 0
	uffdFeatureAsync    = 1 << 15
	uffdFeaturesNeeded  = uffdFeatureFaultWP | uffdFeatureAsync
)

// Flags of the system call userfaultfd, to follow pages and to fill them.
const (
	FollowFlags = uffdUserModeOnly | unix.O_CLOEXEC | unix.O_NONBLOCK
	FillFlags   = uffdUserModeOnly | unix.O_CLOEXEC
)

// BeginFollowing settles with the kernel that the new userfaultfd is to follow writes.
func (u Userfault) BeginFollowing() error {
	api := struct{ api, features, ioctls uint64 }{uffdAPI, uffdFeaturesNeeded, 0}
	if err := ioctl(u.FD, uffdioAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("userfaultfd does not follow writes on its own (Linux 6.7 or newer does): %w", err)
	}
	return nil
}

// Register makes it responsible for the region.
func (u Userfault) Register(e pages.Extent) error { return u.registerAs(e, uffdRegisterWP) }

func (u Userfault) registerAs(e pages.Extent, mode uint64) error {
	arg := struct{ start, len, mode, ioctls uint64 }{e.Start, e.End - e.Start, mode, 0}
	return ioctl(u.FD, uffdioRegister, unsafe.Pointer(&arg))
}

// Unprotect forgets of all pages of a registered region that they were
// protected.
func (u Userfault) Unprotect(e pages.Extent) error {
	arg := struct{ start, len, mode uint64 }{e.Start, e.End - e.Start, 0}
	return ioctl(u.FD, uffdioWriteProtect, unsafe.Pointer(&arg))
}

// BeginFilling settles that it is to fill memory.
func (u Userfault) BeginFilling() error {
	api := struct{ api, features, ioctls uint64 }{api: uffdAPI}
	return ioctl(u.FD, uffdioAPI, unsafe.Pointer(&api))
}

// RegisterEmpty makes it responsible for filling the region.
func (u Userfault) RegisterEmpty(e pages.Extent) error { return u.registerAs(e, uffdRegisterMissing) }

// Fill makes whole pages with the content p and gives how many bytes it has placed: all
// of them, unless there is an error.
func (u Userfault) Fill(p []byte, addr uint64) (placed int, err error) {
	for placed < len(p) {
		arg := struct {
			dst, src, len, mode uint64
			copied              int64
		}{dst: addr + uint64(placed), src: uint64(uintptr(unsafe.Pointer(&p[placed]))), len: uint64(len(p) - placed)}
		err := ioctl(u.FD, uffdioCopy, unsafe.Pointer(&arg))
		runtime.KeepAlive(p)
		placed += int(max(arg.copied, 0))
		if err != nil && err != unix.EAGAIN {
			return placed, err
		}
	}
	return placed, nil
}

// Close gives it up.
func (u Userfault) Close() error { return unix.Close(u.FD) }

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, err := ioctlN(fd, request, arg)
	return err
}

func ioctlN(fd int, request uintptr, arg unsafe.Pointer) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		runtime.KeepAlive(arg)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
