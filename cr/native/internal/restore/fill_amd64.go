//go:build linux

package restore

import (
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// pageCopier fills the memory of the process. Pages of anonymous memory it has
// the kernel make with their content (by userfaultfd), which takes half the time
// of touching and then writing them; what that does not do it writes.
type pageCopier struct {
	mem   *trace.Memory
	there int               // the userfaultfd in the process, -1 without one
	here  pagemap.Userfault // and in this one
}

// copierCall opens a userfaultfd in the process.
func (r *restore) copierCall() call {
	r.copier = pageCopier{mem: r.puppet.mem, there: -1, here: pagemap.Userfault{FD: -1}}
	return call{what: "userfaultfd", nr: unix.SYS_USERFAULTFD, args: [6]uint64{pagemap.FillFlags}, may: true,
		done: func(fd uint64) { r.copier.there = int(fd) }}
}

// join takes the userfaultfd over and registers what is to be filled. A kernel
// that does not permit this is not a failure.
func (c *pageCopier) join(pid int, regions []pages.Extent) {
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
	u := pagemap.Userfault{FD: fd}
	if u.BeginFilling() != nil {
		u.Close()
		return
	}
	c.here = u
	for _, e := range regions {
		u.RegisterEmpty(e) // where it fails, filling will
	}
}

// leave gives it back; the process closes its own descriptor.
func (c *pageCopier) leave() {
	if c.here.FD >= 0 {
		c.here.Close()
	}
	c.here.FD = -1
}

// Poke writes whole pages.
func (c *pageCopier) Poke(p []byte, addr uint64) error {
	if c.here.FD >= 0 {
		n, _ := c.here.Fill(p, addr) // the rest is written
		p, addr = p[n:], addr+uint64(n)
	}
	return c.mem.Poke(p, addr)
}

// copied lists the regions that are filled with copied pages: memory of no file,
// except where the program has asked for large pages, which only a touch brings.
func (r *restore) copied() []pages.Extent {
	var all []pages.Extent
	for i := range r.state.Regions {
		if g := &r.state.Regions[i]; r.filled[i] > 0 && !mapsFile(r.state, i, r.filled) && !g.Has("hg") {
			all = append(all, pages.Extent{Start: g.Start, End: g.End})
		}
	}
	return all
}
