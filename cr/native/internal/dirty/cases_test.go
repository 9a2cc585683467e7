package dirty

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// needFollow skips where the kernel cannot follow writes.
func needFollow(t testing.TB) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
}

// snap scans the stopped program as a committed capture would, and lets it go on.
func snap(p *nativetest.Writer, tr *Tracker, base, seq int) *Changes {
	p.T.Helper()
	c, err := tr.Scan(stood(p, tr.begun), base, seq)
	if err != nil {
		p.T.Fatal(err)
	}
	if (c != nil) != (base > 0) {
		p.T.Fatalf("changes since %d: %v", base, c)
	}
	p.Resume()
	tr.Commit(seq)
	return c
}

// isUnchanged tells whether a page is in the set of its window.
func isUnchanged(c *Changes, addr uint64) bool {
	var set pages.Set
	c.Unchanged(addr/pages.Window*pages.Window, &set)
	return set.Has(int(addr % pages.Window / pages.Size))
}

// changedIn counts the pages from addr on that have changed.
func changedIn(c *Changes, addr uint64, many int) (n int) {
	for i := range many {
		if !isUnchanged(c, addr+uint64(i)*pages.Size) {
			n++
		}
	}
	return n
}

func TestNothingIsFollowedTwice(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	addr := uint64(p.Ask("fill", 8))
	const many = 8 << 20 / pages.Size
	snap(p, &tr, 0, 1)
	if c := snap(p, &tr, 1, 2); changedIn(c, addr, many) != 0 {
		t.Error("nothing was written")
	}
	p.Ask("poke", 77)
	if c := snap(p, &tr, 2, 3); changedIn(c, addr, many) != 1 || isUnchanged(c, addr+77*pages.Size) {
		t.Error("one page was written")
	}
	p.Ask("poke", 78)
	p.Ask("poke", 79)
	if c := snap(p, &tr, 3, 4); changedIn(c, addr, many) != 2 || isUnchanged(c, addr+78*pages.Size) || isUnchanged(c, addr+79*pages.Size) {
		t.Error("two pages were written")
	}
	if c := snap(p, &tr, 4, 5); changedIn(c, addr, many) != 0 {
		t.Error("nothing was written since")
	}
}

// TestScattered has more runs of pages than one answer of the kernel holds.
func TestScattered(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	addr := uint64(p.Ask("fill", 64))
	const many = 64 << 20 / pages.Size
	snap(p, &tr, 0, 1)
	p.Ask("touch", 2)
	c := snap(p, &tr, 1, 2)
	for i := range many {
		if isUnchanged(c, addr+uint64(i)*pages.Size) != (i%2 == 1) {
			t.Fatalf("page %d", i)
		}
	}
}

// TestLostAttempts: whenever it is not certain that the base is whole and the
// newest that was scanned, the image is full.
func TestLostAttempts(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	scan := func(base, seq int) *Changes {
		t.Helper()
		c, err := tr.Scan(stood(p, tr.begun), base, seq)
		p.Resume()
		if c == nil && base > 0 && err == nil {
			t.Error("full, without a reason")
		}
		return c
	}
	if scan(3, 4) != nil {
		t.Error("built on what was never scanned, as after a restart")
	}
	if scan(4, 5) != nil {
		t.Error("built on what is not committed")
	}
	tr.Commit(5)
	if scan(5, 6) == nil {
		t.Error("not built on the newest")
	}
	if scan(5, 7) != nil { // 6 was lost
		t.Error("built on one before the newest")
	}
	tr.Commit(7)
	if scan(6, 8) != nil {
		t.Error("built on one that was lost")
	}
	tr.Commit(8)
	if scan(8, 9) == nil {
		t.Error("not built on the newest")
	}
	tr.Commit(9)
	tr.Close()
	if scan(9, 10) != nil {
		t.Error("built on what was not followed")
	}
}

// TestExec puts another program into the process. The one before is not mistaken
// for it.
func TestExec(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	p.Ask("fill", 1)
	snap(p, &tr, 0, 1)
	p.Ask("exec", 0)
	c, err := tr.Scan(stood(p, tr.begun), 1, 2)
	if c != nil || err == nil {
		t.Error(c, err)
	}
	p.Resume()
	tr.Commit(2)
	c, err = tr.Scan(stood(p, tr.begun), 2, 3)
	if c != nil || err == nil { // nothing followed yet
		t.Error(c, err)
	}
	p.Resume()
	tr.Commit(3)
	addr := uint64(p.Ask("fill", 1))
	snap(p, &tr, 3, 4)
	if c := snap(p, &tr, 4, 5); !isUnchanged(c, addr) {
		t.Error("the new program is not followed")
	}
}

// TestReservedMemory checks that following memory that was never used costs
// nothing: no page tables come into being.
func TestReservedMemory(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	p.Ask("reserve", 64<<10)
	before := pageTables(t, p.PID)
	snap(p, &tr, 0, 1)
	snap(p, &tr, 1, 2)
	if after := pageTables(t, p.PID); after > before+1<<20 {
		t.Errorf("page tables grew from %d to %d bytes", before, after)
	}
}

func pageTables(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := proc.Read(pid, "status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmPTE:")
	line, _, _ := strings.Cut(rest, "\n")
	var kilobytes uint64
	if _, err := fmt.Sscan(line, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// TestHugePages follows memory in huge pages by small ones.
func TestHugePages(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	addr := uint64(p.Ask("huge", 8))
	const many = 8 << 20 / pages.Size
	smaps, err := proc.Read(p.PID, "smaps")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(smaps), "AnonHugePages:      8192 kB") {
		t.Skip("no huge pages to be had here")
	}
	snap(p, &tr, 0, 1)
	for i := range 3 {
		p.Ask("poke", 512+i)
	}
	if c := snap(p, &tr, 1, 2); changedIn(c, addr, many) != 3 {
		t.Errorf("%d pages are said to be written instead of 3", changedIn(c, addr, many))
	}
	p.Ask("touch", 1)
	if c := snap(p, &tr, 2, 3); changedIn(c, addr, many) != many {
		t.Error("all pages were written")
	}
}

// TestDroppableMemory is not followed and not taken for unchanged.
func TestDroppableMemory(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	var tr Tracker
	defer tr.Close()
	addr := uint64(p.Ask("droppable", 1))
	if addr == 0 {
		t.Skip("this kernel has no memory that may be dropped")
	}
	snap(p, &tr, 0, 1)
	if c := snap(p, &tr, 1, 2); isUnchanged(c, addr) {
		t.Error("it is said to be unchanged")
	}
}

// TestFollowingRefused: a process that cannot open a userfaultfd is imaged whole.
func TestFollowingRefused(t *testing.T) {
	needFollow(t)
	p := nativetest.StartWriter(t)
	for _, nr := range []uint64{unix.SYS_USERFAULTFD, unix.SYS_CLOSE} {
		var tr Tracker
		s := stood(p, false)
		whole := s.Syscall
		s.Syscall = func(n uint64, args ...uint64) (uint64, error) {
			if n == nr {
				return 0, unix.EMFILE
			}
			return whole(n, args...)
		}
		if c, err := tr.Scan(s, 0, 1); c != nil || !errors.Is(err, unix.EMFILE) || tr.begun {
			t.Error(c, err)
		}
		p.Resume()
	}
	// A process that is gone.
	var tr Tracker
	defer tr.Close()
	snap(p, &tr, 0, 1)
	proc, _ := os.FindProcess(p.PID)
	proc.Kill()
	unix.Waitid(unix.P_PIDFD, p.Pidfd, nil, unix.WEXITED|unix.WNOWAIT, nil)
	if c, err := tr.Scan(Process{PID: p.PID, Pidfd: p.Pidfd}, 1, 2); isUnchanged(c, nativetest.ArenaStart) {
		t.Error(c, err)
	}
}

func TestUnchangedAcrossWindows(t *testing.T) {
	const w = uint64(0x7f0000000000)
	page := func(n uint64) uint64 { return w + n*pages.Size }
	c := &Changes{
		followed: []pages.Extent{span(page(0), page(3)), span(page(1000), page(2*pages.PerWindow)), span(page(3*pages.PerWindow-1), page(3*pages.PerWindow+1))},
		written:  []pages.Extent{span(page(1), page(2)), span(page(1020), page(1030)), span(page(2*pages.PerWindow-1), page(2*pages.PerWindow)), span(page(5000), page(6000))},
	}
	for n, want := range map[uint64]bool{
		0: true, 1: false, 2: true, 3: false, 999: false, 1000: true, 1019: true, 1020: false, 1023: false, 1024: false, 1029: false,
		1030: true, 2*pages.PerWindow - 2: true, 2*pages.PerWindow - 1: false, 2 * pages.PerWindow: false, 3*pages.PerWindow - 1: true, 3 * pages.PerWindow: true,
		3*pages.PerWindow + 1: false, 5500: false,
	} {
		if isUnchanged(c, page(n)) != want {
			t.Errorf("page %d: %v", n, !want)
		}
	}
	if isUnchanged(nil, w) || isUnchanged(&Changes{}, w) {
		t.Error("something is unchanged since nothing")
	}
}

func TestFollowable(t *testing.T) {
	for line, want := range map[string]bool{
		"c000000000-c000400000 rw-p 00000000 00:00 0                              [anon: Go: heap]": true,
		"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ":                                          true,
		"7f0000000000-7f0000001000 r--p 00000000 00:00 0 ":                                          true,
		"7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]":          true,
		"7f0000000000-7f0000001000 ---p 00000000 00:00 0 ":                                          false,
		"7f0000000000-7f0000001000 rw-s 00000000 00:00 0 ":                                          false,
		"7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]":           false,
		"7ffd00000000-7ffd00002000 r--p 00000000 00:00 0                          [vvar]":           false,
		"00500000-00600000 rw-p 00100000 fe:00 42                                 /bin/solver":      false,
	} {
		m, err := proc.ParseMapping([]byte(line))
		if err != nil || followable(&m) != want {
			t.Errorf("%s: %v %v", line, !want, err)
		}
	}
}

func TestOlderKernel(t *testing.T) {
	for release, want := range map[string]bool{
		"6.13.0": false, "6.12.99-generic": true, "5.15.0": true, "7.0": false, "6.18.44-fc": false, "odd": true, "": true,
	} {
		if olderKernel(release, 6, 13) != want {
			t.Errorf("%q: %v", release, !want)
		}
	}
}

// TestUnprivilegedFollowing runs the tests of following once more as an ordinary user.
func TestUnprivilegedFollowing(t *testing.T) {
	needFollow(t)
	out := nativetest.Unprivileged(t, "^Test(FollowedMemory|Scattered|LostAttempts|Exec|HugePages)$")
	if n := nativetest.Passed(out); n != 5 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
