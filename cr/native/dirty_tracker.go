package native

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracker follows which pages of a process change between captures. The zero
// value has not begun. It is used while the process stands still, and by one
// goroutine at a time.
type tracker struct {
	uffd    userfault
	pagemap int
	begun   bool
	// armed is the sequence of the capture since which all that is followed has
	// been followed, and committed that of the newest snapshot known to be
	// whole. Unless both are the one that is to be built on, the pages of an
	// image that was lost would be missing.
	armed, committed int
	regions          []pageRegion
}

// stopped is a process that stands still, as far as a tracker needs it.
type stopped struct {
	pid, pidfd int
	// syscall makes the process make a system call.
	syscall func(nr uint64, args ...uint64) (uint64, error)
}

// scan finds out what has changed since the capture base, and from now on
// follows what changes after the capture seq, which is being taken. The process
// stands still from before scan until its memory was copied. Without base, or
// where the tracker does not know, changes is nil: the image has to be full. An
// error says why it has to be although base was given, or why the next one will
// have to be; the process is none the worse.
func (t *tracker) scan(p stopped, base, seq int) (*changes, error) {
	known := base > 0 && t.begun && t.armed == base && t.committed == base
	t.armed = 0 // until all is done
	if err := t.begin(p); err != nil {
		return nil, err
	}
	c := &changes{}
	if err := t.walk(p.pid, c); err != nil {
		t.Close()
		return nil, fmt.Errorf("follow writes to memory: %w", err)
	}
	t.armed = seq
	switch {
	case known:
		return c, nil
	case base > 0:
		return nil, fmt.Errorf("what has changed since snapshot %d is not known", base)
	}
	return nil, nil
}

// commit notes that the snapshot seq is whole.
func (t *tracker) commit(seq int) { t.committed = seq }

// Close ends the following: the program's writes cost nothing more.
func (t *tracker) Close() error {
	if !t.begun {
		return nil
	}
	err := errors.Join(t.uffd.Close(), unix.Close(t.pagemap))
	*t = tracker{committed: t.committed, regions: t.regions}
	return err
}

// begin makes the process open a userfaultfd, takes it over and closes it there,
// so that the program never meets it.
func (t *tracker) begin(p stopped) error {
	if t.begun {
		return nil
	}
	if err := canFollow(); err != nil {
		return err
	}
	pagemap, err := unix.Open(fmt.Sprintf("/proc/%d/pagemap", p.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open pagemap of process %d: %w", p.pid, err)
	}
	uffd, err := takeUserfault(p)
	if err == nil {
		if err = uffd.begin(); err != nil {
			uffd.Close()
		}
	}
	if err != nil {
		unix.Close(pagemap)
		return err
	}
	t.uffd, t.pagemap, t.begun = uffd, pagemap, true
	if t.regions == nil {
		t.regions = make([]pageRegion, maxRegionsInOneScan)
	}
	return nil
}

// takeUserfault opens a userfaultfd in the process and moves it here.
func takeUserfault(p stopped) (u userfault, err error) {
	theirs, err := p.syscall(unix.SYS_USERFAULTFD, userfaultFlags)
	if err != nil {
		return u, fmt.Errorf("open userfaultfd in process %d: %w", p.pid, err)
	}
	u.fd, err = unix.PidfdGetfd(p.pidfd, int(theirs), 0)
	if err != nil {
		err = fmt.Errorf("take userfaultfd over from process %d: %w", p.pid, err)
	}
	if _, e := p.syscall(unix.SYS_CLOSE, theirs); e != nil && err == nil {
		u.Close()
		err = fmt.Errorf("close userfaultfd in process %d: %w", p.pid, e)
	}
	return u, err
}

// walk goes through all regions, notes what has changed in those that are
// followed already, and begins to follow the others.
func (t *tracker) walk(pid int, c *changes) error {
	maps, err := parsedProc(pid, "maps", parseMaps)
	if err != nil {
		return err
	}
	for i := range maps {
		if !followable(&maps[i]) {
			continue
		}
		s := extent{maps[i].start, maps[i].end}
		written, err := protect(t.pagemap, s, t.regions, c.written)
		if err == nil {
			c.written = written
			c.followed = append(c.followed, s)
			continue
		}
		if err != errNotFollowed {
			return err
		}
		// Mapped, or moved here, since the last time.
		if err := t.follow(s); err != nil {
			return err
		}
	}
	return nil
}

// follow begins to follow a region. What the kernel does not follow (memory
// that may be dropped, for example) goes into every image.
func (t *tracker) follow(s extent) error {
	if err := t.uffd.register(s); err != nil {
		if err == unix.EINVAL || err == unix.EBUSY || err == unix.EPERM {
			return nil
		}
		return fmt.Errorf("region %#x-%#x: %w", s.start, s.end, err)
	}
	if err := t.uffd.unprotect(s); err != nil {
		return fmt.Errorf("region %#x-%#x: %w", s.start, s.end, err)
	}
	_, err := protect(t.pagemap, s, t.regions, nil)
	return err
}

// canFollow tells why writes to memory cannot be followed on this machine. It
// tries it, once, on a page of this process.
var canFollow = sync.OnceValue(func() error {
	if err := tryFollowing(); err != nil {
		return fmt.Errorf("incremental images: %w", err)
	}
	return nil
})

func tryFollowing() error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, userfaultFlags, 0, 0)
	switch errno {
	case 0:
	case unix.ENOSYS:
		return errors.New("this kernel has no userfaultfd (CONFIG_USERFAULTFD)")
	case unix.EPERM:
		return fmt.Errorf("userfaultfd is not permitted here, as in containers whose seccomp profile refuses it: %w", errno)
	default:
		return fmt.Errorf("userfaultfd: %w", errno)
	}
	u := userfault{int(fd)}
	defer u.Close()
	if err := u.begin(); err != nil {
		return err
	}
	pagemap, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pagemap: %w", err)
	}
	defer unix.Close(pagemap)
	const n = 2 * PageSize
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(mem)
	start := uint64(uintptr(unsafe.Pointer(&mem[0])))
	s := extent{start, start + n}
	mem[0], mem[PageSize] = 1, 1
	if err := u.register(s); err != nil {
		return fmt.Errorf("userfaultfd: %w", err)
	}
	buf := make([]pageRegion, 4)
	first, err := protect(pagemap, s, buf, nil)
	if err != nil {
		return fmt.Errorf("PAGEMAP_SCAN (Linux 6.7 or newer has it): %w", err)
	}
	mem[PageSize] = 2
	second, err := protect(pagemap, s, buf, nil)
	if err != nil {
		return fmt.Errorf("PAGEMAP_SCAN: %w", err)
	}
	if len(first) != 1 || first[0] != s || len(second) != 1 || second[0] != (extent{s.start + PageSize, s.end}) {
		return fmt.Errorf("PAGEMAP_SCAN finds %v and then %v written where it should find %v and then its second page", first, second, s)
	}
	return nil
}
