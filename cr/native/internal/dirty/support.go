package dirty

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// Supported tells why writes to memory cannot be followed on this machine. It
// tries it, once, on pages of this process.
var Supported = sync.OnceValue(func() error {
	if err := tryFollowing(); err != nil {
		return fmt.Errorf("incremental images: %w", err)
	}
	return nil
})

func tryFollowing() error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, pagemap.FollowFlags, 0, 0)
	switch errno {
	case 0:
	case unix.ENOSYS:
		return errors.New("this kernel has no userfaultfd (CONFIG_USERFAULTFD)")
	case unix.EPERM:
		return fmt.Errorf("userfaultfd is not permitted here, as in containers whose seccomp profile refuses it: %w", errno)
	default:
		return fmt.Errorf("userfaultfd: %w", errno)
	}
	u := pagemap.Userfault{FD: int(fd)}
	defer u.Close()
	if err := u.BeginFollowing(); err != nil {
		return err
	}
	table, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pagemap: %w", err)
	}
	defer unix.Close(table)
	const n = 2 * pages.Size
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(mem)
	start := uint64(uintptr(unsafe.Pointer(&mem[0])))
	return followOwn(u, table, pages.Extent{Start: start, End: start + n}, mem)
}

// followOwn writes to two pages of this process and checks that the kernel
// finds both, and then the second only.
func followOwn(u pagemap.Userfault, table int, e pages.Extent, mem []byte) error {
	mem[0], mem[pages.Size] = 1, 1
	if err := u.Register(e); err != nil {
		return fmt.Errorf("userfaultfd: %w", err)
	}
	buf := pagemap.NewBuffer(4)
	first, err := pagemap.Protect(table, e, buf, nil)
	if err != nil {
		return fmt.Errorf("PAGEMAP_SCAN (Linux 6.7 or newer has it): %w", err)
	}
	mem[pages.Size] = 2
	second, err := pagemap.Protect(table, e, buf, nil)
	if err != nil {
		return fmt.Errorf("PAGEMAP_SCAN: %w", err)
	}
	if len(first) != 1 || first[0] != e || len(second) != 1 || second[0] != (pages.Extent{Start: e.Start + pages.Size, End: e.End}) {
		return fmt.Errorf("PAGEMAP_SCAN finds %v and then %v written where it should find %v and then its second page", first, second, e)
	}
	return nil
}

// movesMarks tells whether pages that mremap moves bring the mark of their
// protection along, but not the protection: kernels before 6.13.
var movesMarks = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return true
	}
	return olderKernel(unix.ByteSliceToString(u.Release[:]), 6, 13)
})

// olderKernel compares a release as uname gives it; one that makes no sense is
// old.
func olderKernel(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n < 2 {
		return true
	}
	return a < major || a == major && b < minor
}
