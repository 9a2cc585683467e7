package native

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userfault is a userfaultfd that follows writes to the memory of a process
// without stopping its threads: the first write to a page since it was protected
// costs one fault within the kernel.
type userfault struct{ fd int }

// From linux/userfaultfd.h.
const (
	uffdUserModeOnly = 1

	uffdAPI             = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdioWriteProtect  = 0xc018aa06
	uffdRegisterWP      = 1 << 1
	uffdFeatureFaultWP  = 1 << 0
	uffdFeatureAsync    = 1 << 15
	uffdFeaturesNeeded  = uffdFeatureFaultWP | uffdFeatureAsync
	userfaultFlags      = uffdUserModeOnly | unix.O_CLOEXEC | unix.O_NONBLOCK
	pagemapScan         = 0xc0606610
	scanWPMatching      = 1 << 0
	scanCheckWPAsync    = 1 << 1
	scanWritten         = 1 << 1
	scanPresent         = 1 << 3
	scanSwapped         = 1 << 4
	maxRegionsInOneScan = 1 << 12
)

// begin settles with the kernel what the new userfaultfd is to do.
func (u userfault) begin() error {
	api := struct{ api, features, ioctls uint64 }{uffdAPI, uffdFeaturesNeeded, 0}
	if err := ioctl(u.fd, uffdioAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("userfaultfd does not follow writes on its own (Linux 6.7 or newer does): %w", err)
	}
	return nil
}

// register makes it responsible for the region.
func (u userfault) register(e extent) error {
	arg := struct{ start, len, mode, ioctls uint64 }{e.start, e.end - e.start, uffdRegisterWP, 0}
	return ioctl(u.fd, uffdioRegister, unsafe.Pointer(&arg))
}

// unprotect forgets of all pages of a registered region that they were
// protected.
func (u userfault) unprotect(e extent) error {
	arg := struct{ start, len, mode uint64 }{e.start, e.end - e.start, 0}
	return ioctl(u.fd, uffdioWriteProtect, unsafe.Pointer(&arg))
}

func (u userfault) Close() error { return unix.Close(u.fd) }

// pageRegion is the kernel's struct page_region.
type pageRegion struct{ start, end, categories uint64 }

// scanArg is the kernel's struct pm_scan_arg.
type scanArg struct {
	size, flags                       uint64
	start, end, walkEnd               uint64
	vec                               unsafe.Pointer
	vecLen, maxPages                  uint64
	inverted, mask, anyOf, returnMask uint64
}

// errNotFollowed says that no userfaultfd is responsible for a region.
var errNotFollowed = errors.New("not followed")

// protect finds the pages of a region that were written since they were last
// protected, or have never been, and protects them, in one go. They are appended
// to written, none of them after an error: some may then be protected and
// nevertheless unknown. pagemap is of /proc/PID/pagemap, buf the place for the
// kernel's answers.
func protect(pagemap int, e extent, buf []pageRegion, written []extent) ([]extent, error) {
	arg := scanArg{
		flags: scanWPMatching | scanCheckWPAsync, start: e.start, end: e.end,
		vec: unsafe.Pointer(&buf[0]), vecLen: uint64(len(buf)),
		// Asked like this, the kernel passes over pages that are not there, and
		// makes no page tables for them.
		mask: scanWritten, anyOf: scanPresent | scanSwapped, returnMask: scanWritten,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	before := written
	for arg.start < e.end {
		n, err := ioctlN(pagemap, pagemapScan, unsafe.Pointer(&arg))
		if err == unix.EPERM {
			return before, errNotFollowed
		}
		if err != nil {
			return before, fmt.Errorf("scan pages at %#x: %w", arg.start, err)
		}
		for _, r := range buf[:n] {
			written = appendExtent(written, extent{r.start, r.end})
		}
		if arg.walkEnd <= arg.start {
			return before, fmt.Errorf("scan pages at %#x: the kernel stopped there", arg.start)
		}
		arg.start = arg.walkEnd
	}
	return written, nil
}

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
