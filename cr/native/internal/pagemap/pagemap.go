// Package pagemap asks the kernel about the pages of a process, and has it follow or
// fill them: /proc/PID/pagemap, PAGEMAP_SCAN and userfaultfd.
//
// To learn which pages a process writes to, register its memory with a
// Userfault, and call Protect repeatedly: each call returns the pages written
// since the one before.
package pagemap

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// From linux/fs.h.
const (
	pagemapScan      = 0xc0606610
	scanWPMatching   = 1 << 0
	scanCheckWPAsync = 1 << 1
	scanWritten      = 1 << 1
	scanPresent      = 1 << 3
	scanSwapped      = 1 << 4
	scanGuard        = 1 << 8 // since Linux 6.15
)

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

// ErrNotFollowed says that no userfaultfd is responsible for a region.
var ErrNotFollowed = errors.New("not followed")

// Open opens the page tables of a process.
func Open(pid int) (int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/pagemap", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("page tables: %w", err)
	}
	return fd, nil
}

// Buffer is room for the kernel's answers.
type Buffer []pageRegion

// NewBuffer makes one for n regions in one answer. It is used by one scan at a time.
func NewBuffer(n int) Buffer { return make(Buffer, n) }

// ManyRegions is room enough to ask seldom.
const ManyRegions = 1 << 12

// Protect finds the pages of a region that were written since they were last
// protected, or have never been, and protects them, in one go. They are appended
// to written, none of them after an error: some may then be protected and
// nevertheless unknown. pagemap is of /proc/PID/pagemap, buf the place for the
// kernel's answers.
func Protect(pagemap int, e pages.Extent, buf Buffer, written []pages.Extent) ([]pages.Extent, error) {
	arg := scanArg{
		flags: scanWPMatching | scanCheckWPAsync, start: e.Start, end: e.End,
		vec: unsafe.Pointer(&buf[0]), vecLen: uint64(len(buf)),
		// Asked like this, the kernel passes over pages that are not there, and
		// makes no page tables for them.
		mask: scanWritten, anyOf: scanPresent | scanSwapped, returnMask: scanWritten,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	before := written
	for arg.start < e.End {
		n, err := ioctlN(pagemap, pagemapScan, unsafe.Pointer(&arg))
		if err == unix.EPERM {
			return before, ErrNotFollowed
		}
		if err != nil {
			return before, fmt.Errorf("scan pages at %#x: %w", arg.start, err)
		}
		for _, r := range buf[:n] {
			written = pages.Append(written, pages.Extent{Start: r.start, End: r.end})
		}
		if arg.walkEnd <= arg.start {
			return before, fmt.Errorf("scan pages at %#x: the kernel stopped there", arg.start)
		}
		arg.start = arg.walkEnd
	}
	return written, nil
}

// Guards lists the guard pages of a process, as madvise makes them within a mapping
// (Linux 6.13); none where the kernel does not tell (before 6.15).
func Guards(pid int) ([]pages.Extent, error) {
	fd, err := Open(pid)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := NewBuffer(ManyRegions)
	arg := scanArg{
		end: pages.EndOfUser, vec: unsafe.Pointer(&buf[0]), vecLen: uint64(len(buf)),
		mask: scanGuard, returnMask: scanGuard,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	var all []pages.Extent
	for arg.start < pages.EndOfUser {
		n, err := ioctlN(fd, pagemapScan, unsafe.Pointer(&arg))
		if err == unix.EINVAL || err == unix.ENOTTY {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("guard pages from %#x on: %w", arg.start, err)
		}
		if arg.walkEnd <= arg.start {
			return nil, fmt.Errorf("guard pages from %#x on: the kernel stopped there", arg.start)
		}
		for _, r := range buf[:n] {
			all = pages.Append(all, pages.Extent{Start: r.start, End: r.end})
		}
		arg.start = arg.walkEnd
	}
	return all, nil
}
