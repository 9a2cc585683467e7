package native

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Guard pages, as madvise makes them within a mapping (Linux 6.13): nobody may read
// them, and they hold nothing. Which they are shows in PAGEMAP_SCAN since 6.15.
const (
	madvGuardInstall = 102
	scanGuard        = 1 << 8
)

// describeGuards notes the guard pages.
func (c *captured) describeGuards(pid int) error {
	pagemap, err := openPagemap(pid)
	if err != nil {
		return err
	}
	defer unix.Close(pagemap)
	buf := make([]pageRegion, maxRegionsInOneScan)
	arg := scanArg{
		end: endOfUser, vec: unsafe.Pointer(&buf[0]), vecLen: uint64(len(buf)),
		mask: scanGuard, returnMask: scanGuard,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	for arg.start < endOfUser {
		n, err := ioctlN(pagemap, pagemapScan, unsafe.Pointer(&arg))
		if err == unix.EINVAL || err == unix.ENOTTY {
			return nil // the kernel does not tell
		}
		if err != nil || arg.walkEnd <= arg.start {
			return fmt.Errorf("guard pages from %#x on: %w", arg.start, errors.Join(err, errShort))
		}
		for _, r := range buf[:n] {
			c.guards = appendExtent(c.guards, extent{r.start, r.end})
		}
		arg.start = arg.walkEnd
	}
	for _, e := range c.guards {
		c.state.Guards = append(c.state.Guards, Extent{e.start, e.end})
	}
	return nil
}

// openPagemap opens the page tables of a process.
func openPagemap(pid int) (int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/pagemap", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("page tables: %w", err)
	}
	return fd, nil
}

// unreadable tells what a page most likely is that cannot be read, although it is there.
func unreadable(err error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.EFAULT) {
		return refuse("use mprotect, or Linux 6.15 or newer", "guard pages of MADV_GUARD_INSTALL, of which this kernel does not tell (%v)", err)
	}
	return err
}

// guardCalls makes the guard pages anew.
func (s *State) guardCalls() []call {
	var calls []call
	for _, e := range s.Guards {
		calls = append(calls, call{what: fmt.Sprintf("guard pages %#x to %#x (Linux 6.13 or newer has them)", e.Start, e.End), nr: unix.SYS_MADVISE,
			args: [6]uint64{e.Start, e.End - e.Start, madvGuardInstall}})
	}
	return calls
}
