package dirty

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// Tracker follows which pages of a process change between captures. The zero
// value has not begun. It is used by one goroutine at a time.
//
// Pages are protected while the process stands still, which costs 50 ns for each
// that was written. Doing it ahead, while its threads run, is right by the book,
// but on a virtual machine whose host keeps shadow page tables (Firecracker with
// nested PVM) one page in a million stayed writable when a thread was writing to
// it, and what was written from then on was missing in the next image.
type Tracker struct {
	uffd  pagemap.Userfault
	begun bool
	// since is the sequence of the capture from which on everything was
	// followed, and committed that of the newest snapshot known to be whole.
	// Unless both are the one that is to be built on, the pages of an image that
	// was lost would be missing.
	since, committed int
	answers          pagemap.Buffer
	before           []pages.Extent // the regions that were looked at
}

// Process is a process that stands still, as far as a tracker needs it.
type Process struct {
	PID, Pidfd int
	Maps       []proc.Mapping // as they are now; nil: to be read
	// Syscall makes the process make a system call.
	Syscall func(nr uint64, args ...uint64) (uint64, error)
}

// Scan finds out what has changed since the capture base, and from now on
// follows what changes after the capture seq, which is being taken. The process
// stands still from before scan until its memory was copied. Without base, or
// where the tracker does not know, changes is nil: the image has to be full. An
// error says why it has to be although base was given, or why the next one will
// have to be; the process is not harmed.
func (t *Tracker) Scan(p Process, base, seq int) (*Changes, error) {
	known := base > 0 && t.begun && t.since == base && t.committed == base
	if err := t.begin(p); err != nil {
		return nil, err
	}
	c := &Changes{}
	if err := t.look(p, c); err != nil {
		t.Close()
		return nil, err
	}
	t.since = seq
	switch {
	case known:
		return c, nil
	case base > 0:
		return nil, fmt.Errorf("what has changed since snapshot %d is not known", base)
	}
	return nil, nil
}

// Commit records that the snapshot seq is whole.
func (t *Tracker) Commit(seq int) { t.committed = seq }

// Close ends the following: the program's writes cost nothing more.
func (t *Tracker) Close() error {
	if !t.begun {
		return nil
	}
	err := t.uffd.Close()
	*t = Tracker{committed: t.committed, answers: t.answers}
	return err
}

// begin makes the process open a userfaultfd, takes it over and closes it there,
// so that the program never meets it. One thread that stands still is enough.
func (t *Tracker) begin(p Process) error {
	if t.begun {
		return nil
	}
	if err := Supported(); err != nil {
		return err
	}
	uffd, err := takeUserfault(p)
	if err != nil {
		return err
	}
	if err := uffd.BeginFollowing(); err != nil {
		uffd.Close()
		return err
	}
	t.uffd, t.begun = uffd, true
	if t.answers == nil {
		t.answers = pagemap.NewBuffer(pagemap.ManyRegions)
	}
	return nil
}

// takeUserfault opens a userfaultfd in the process and moves it here.
func takeUserfault(p Process) (u pagemap.Userfault, err error) {
	theirs, err := p.Syscall(unix.SYS_USERFAULTFD, pagemap.FollowFlags)
	if err != nil {
		return u, fmt.Errorf("open userfaultfd in process %d: %w", p.PID, err)
	}
	u.FD, err = unix.PidfdGetfd(p.Pidfd, int(theirs), 0)
	if err != nil {
		err = fmt.Errorf("take userfaultfd over from process %d: %w", p.PID, err)
	}
	if _, e := p.Syscall(unix.SYS_CLOSE, theirs); e != nil && err == nil {
		u.Close()
		err = fmt.Errorf("close userfaultfd in process %d: %w", p.PID, e)
	}
	return u, err
}

// look goes through all regions, notes what has changed in those that are
// followed already, and begins to follow the others.
func (t *Tracker) look(p Process, c *Changes) error {
	maps := p.Maps
	if maps == nil {
		var err error
		if maps, err = proc.Parsed(p.PID, "maps", proc.ParseMaps); err != nil {
			return fmt.Errorf("follow writes to memory: %w", err)
		}
	}
	// Opened again: if the process has executed another program meanwhile, the
	// old one would tell of the memory it had, where nothing is written any more.
	table, err := unix.Open(fmt.Sprintf("/proc/%d/pagemap", p.PID), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("follow writes to memory: page tables: %w", err)
	}
	defer unix.Close(table)
	var regions []pages.Extent
	for i := range maps {
		if followable(&maps[i]) {
			regions = append(regions, pages.Extent{Start: maps[i].Start, End: maps[i].End})
		}
	}
	before := t.before
	t.before = regions
	for len(regions) > 0 {
		n := crowd(regions, &before)
		if err := t.lookAt(table, regions[:n], c); err != nil {
			return err
		}
		regions = regions[n:]
	}
	return nil
}

// crowdSize bounds what is asked for at once.
const crowdSize = 256 << 10

// crowd tells how many regions from the first on are asked for at once: small ones
// that touch, since of ten thousand each question counts, and were there before.
// What of before lies in front of them is dropped.
func crowd(regions []pages.Extent, before *[]pages.Extent) int {
	n := 0
	for ; n < len(regions) && regions[n].End-regions[0].Start <= crowdSize; n++ {
		for len(*before) > 0 && (*before)[0].Start < regions[n].Start {
			*before = (*before)[1:]
		}
		known := len(*before) > 0 && (*before)[0] == regions[n]
		if !known || n > 0 && regions[n].Start != regions[n-1].End {
			break
		}
	}
	return max(n, 1)
}

// lookAt looks at regions that touch. If not all of them were followed up to now it
// is not known what has changed in any.
func (t *Tracker) lookAt(table int, regions []pages.Extent, c *Changes) error {
	all := pages.Extent{Start: regions[0].Start, End: regions[len(regions)-1].End}
	found, err := pagemap.Protect(table, all, t.answers, nil)
	if err == pagemap.ErrNotFollowed {
		// Mapped, or moved here, since the last time, all of it or a part.
		c.written = pages.Append(c.written, all)
		for _, e := range regions {
			if found, err = t.follow(table, e); err != nil {
				all = e
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("follow writes to memory at %#x-%#x: %w", all.Start, all.End, err)
	}
	c.followed = append(c.followed, all)
	for _, f := range found {
		c.written = pages.Append(c.written, f)
	}
	return nil
}

// follow begins to follow a region. What the kernel does not follow (memory
// that may be dropped, for example, or what the running process has unmapped
// meanwhile) goes into every image.
func (t *Tracker) follow(table int, e pages.Extent) ([]pages.Extent, error) {
	switch err := t.uffd.Register(e); err {
	case nil:
	case unix.ENOMEM, unix.ESRCH: // perhaps because another program was executed
		return nil, err
	default:
		return nil, nil
	}
	if movesMarks() {
		if err := t.uffd.Unprotect(e); err != nil && err != unix.ENOENT {
			return nil, err
		}
	}
	found, err := pagemap.Protect(table, e, t.answers, nil)
	if err == pagemap.ErrNotFollowed {
		err = nil // mapped just now; found the next time
	}
	return found, err
}
