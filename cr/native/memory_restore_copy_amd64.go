//go:build linux

package native

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/userfaultfd.h.
const (
	uffdioCopy          = 0xc028aa03
	uffdRegisterMissing = 1 << 0
)

// pageCopier fills the memory of the process. Pages of anonymous memory it has
// the kernel make with their content (by userfaultfd), which takes half the time
// of touching and then writing them; what that does not do it writes.
type pageCopier struct {
	mem   *memory
	there int // the userfaultfd in the process, -1 without one
	here  int // and in this one
}

// copierCall opens a userfaultfd in the process.
func (r *restore) copierCall() call {
	r.copier = pageCopier{mem: r.puppet.mem, there: -1, here: -1}
	return call{what: "userfaultfd", nr: unix.SYS_USERFAULTFD, args: [6]uint64{uffdUserModeOnly | unix.O_CLOEXEC}, may: true,
		done: func(fd uint64) { r.copier.there = int(fd) }}
}

// join takes the userfaultfd over and registers what is to be filled. A kernel
// that does not let us is no failure.
func (c *pageCopier) join(pid int, regions []extent) {
	if c.there < 0 {
		return
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, c.there, 0)
	if err != nil {
		return
	}
	api := struct{ api, features, ioctls uint64 }{api: uffdAPI}
	if ioctl(fd, uffdioAPI, unsafe.Pointer(&api)) != nil {
		unix.Close(fd)
		return
	}
	c.here = fd
	for _, e := range regions {
		arg := struct{ start, len, mode, ioctls uint64 }{e.start, e.end - e.start, uffdRegisterMissing, 0}
		ioctl(fd, uffdioRegister, unsafe.Pointer(&arg)) // where it fails, copying will
	}
}

// leave gives it back; the process closes its own descriptor.
func (c *pageCopier) leave() {
	if c.here >= 0 {
		unix.Close(c.here)
	}
	c.here = -1
}

// poke writes whole pages.
func (c *pageCopier) poke(p []byte, addr uint64) error {
	for c.here >= 0 && len(p) > 0 {
		arg := struct {
			dst, src, len, mode uint64
			copied              int64
		}{dst: addr, src: uint64(uintptr(unsafe.Pointer(&p[0]))), len: uint64(len(p))}
		err := ioctl(c.here, uffdioCopy, unsafe.Pointer(&arg))
		runtime.KeepAlive(p)
		n := max(arg.copied, 0)
		p, addr = p[n:], addr+uint64(n)
		if err != nil && err != unix.EAGAIN {
			break
		}
	}
	return c.mem.poke(p, addr)
}

// copied lists the regions that are filled with copied pages: memory of no file,
// except where the program has asked for large pages, which only a touch brings.
func (r *restore) copied() []extent {
	var all []extent
	for i := range r.state.Regions {
		if g := &r.state.Regions[i]; r.filled[i] > 0 && !r.state.mapsFile(i, r.filled) && !g.has("hg") {
			all = append(all, extent{g.Start, g.End})
		}
	}
	return all
}
