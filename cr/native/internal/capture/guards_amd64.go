package capture

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// describeGuards notes the guard pages: they cannot be read, and they hold nothing.
func (c *captured) describeGuards(pid int) (err error) {
	c.guards, err = pagemap.Guards(pid)
	c.state.Guards = c.guards
	return err
}

// unreadable tells what a page most likely is that cannot be read, although it is there.
func unreadable(err error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.EFAULT) {
		return refusal.New("use mprotect, or Linux 6.15 or newer", "guard pages of MADV_GUARD_INSTALL, of which this kernel does not tell (%v)", err)
	}
	return err
}
