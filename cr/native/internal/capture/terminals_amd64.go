package capture

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/terminal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A pseudo-terminal gets its number again only in a namespace without other processes. So the
// family must have both sides, and no other process either of them. One whose other side is
// elsewhere, as the user's is, is none of these: it is opened again by its name.

const (
	terminalRemedy = "close it while checkpoints are taken"
	mostTyped      = 2048 // that waits at a terminal; beyond that the kernel may hold back some
)

// isTerminal tells a side of a pseudo-terminal that has to be made again: the one where what is typed comes from, or
// one that has hung up.
func isTerminal(f *state.File, stat *unix.Stat_t) (is bool, err error) {
	switch number, other := numberOf(stat); {
	case other:
		f.Master = true
	case number >= 0 && stat.Nlink == 0:
		f.Number = number
	default:
		return false, nil
	}
	f.Kind = state.FilePty
	if err := trace.SameTerminals(); err != nil {
		return true, refusal.New(terminalRemedy, "a pseudo-terminal, which cannot have its number again: %v", err)
	}
	return true, nil
}

// numberOf gives that of a pseudo-terminal, -1 if it is none; other tells what makes the other side of one.
func numberOf(stat *unix.Stat_t) (number int, other bool) {
	const first, last, multiplexer = 136, 143, 2
	switch major, minor := unix.Major(stat.Rdev), unix.Minor(stat.Rdev); {
	case stat.Mode&unix.S_IFMT != unix.S_IFCHR:
	case major == 5 && minor == multiplexer:
		return -1, true
	case major >= first && major <= last:
		return int(major-first)<<8 | int(minor), false
	}
	return -1, false
}

// checkTerminals refuses what can be seen from outside.
func (g *Target) checkTerminals() error {
	numbers := map[int]bool{}
	for _, m := range append([]*Target{g}, slices.Collect(maps.Values(g.kin))...) {
		for _, fd := range m.masters {
			if n, err := m.numberOf(fd); err == nil {
				numbers[n] = true
			}
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if _, gone, _ := workingDir(g.PID); gone {
		return refusal.New("change to another folder", "a pseudo-terminal, and a working directory that was deleted")
	}
	return g.checkOutsiders(numbers)
}

// numberOf asks for the number of the terminal whose other side is fd.
func (g *Target) numberOf(fd int) (int, error) {
	here, err := g.Getfd(fd)
	if err != nil {
		return 0, err
	}
	defer unix.Close(here)
	return unix.IoctlGetInt(here, unix.TIOCGPTN)
}

// checkOutsiders refuses terminals that processes outside the family have, too, as far as this user can see.
func (g *Target) checkOutsiders(numbers map[int]bool) error {
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return err
	}
	space := trace.MountsOf(g.PID)
	for _, pid := range pids {
		if trace.MountsOf(pid) != space {
			continue
		}
		s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
		if err != nil {
			continue
		}
		if status, err := proc.Parsed(pid, "status", proc.ParseStatus); err != nil || status.Tracer != 0 && trace.IsOurThread(status.Tracer) {
			continue // a copy, of an earlier image
		}
		n, _ := numberOf(&unix.Stat_t{Rdev: s.TTY, Mode: unix.S_IFCHR})
		for _, fd := range append(terminalsOf(pid), n) {
			if numbers[fd] && g.outside(pid) {
				return refusal.New(terminalRemedy, "the pseudo-terminal %d, which process %d (%s) has, too", fd, pid, s.Comm)
			}
		}
	}
	return nil
}

// terminalsOf lists the numbers of the terminals that a process has a side of.
func terminalsOf(pid int) (all []int) {
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		link, _ := os.Readlink(fdPath(pid, fd))
		if filepath.Base(link) == "ptmx" {
			if in, err := proc.Parsed(pid, "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo); err == nil {
				all = append(all, in.Number)
			}
		} else if number, ok := strings.CutPrefix(link, trace.Terminals+"/"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// side is one that a process of the family has open.
type side struct {
	st *stand
	f  *state.File
}

func (s *side) get() (int, error) { return s.st.g.Getfd(s.f.FD) }

// recordTerminals notes the pseudo-terminals of the family, with what waits in them.
func (st *stand) recordTerminals(r *recorder) error {
	if r.state.Kin != nil {
		return nil
	}
	masters, gone := map[int]side{}, false
	err := st.family.eachFile(func(s side) (err error) {
		switch {
		case s.f.Kind != state.FilePty:
		case !s.f.Master:
			gone = true
		default:
			s.f.Number, err = s.st.g.numberOf(s.f.FD)
			masters[s.f.Number] = s
		}
		return err
	})
	if err != nil || len(masters) == 0 && !gone {
		return err
	}
	numbers := map[int]bool{}
	for n := range masters {
		numbers[n] = true
	}
	if err := st.g.checkOutsiders(numbers); err != nil {
		return err
	}
	if err := st.family.recordGone(r, masters); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(masters)) {
		if n >= state.MaxTerminals {
			return refusal.New(terminalRemedy, "the pseudo-terminal %d, of so high a number", n)
		}
		t, err := st.family.recordTerminal(n, masters[n])
		if err != nil {
			return fmt.Errorf("the pseudo-terminal %d: %w", n, err)
		}
		r.state.Terminals = append(r.state.Terminals, t)
	}
	return nil
}

// recordGone notes those that have hung up. What is left of their numbers is that they are different ones; other
// terminals may have them by now.
func (f *family) recordGone(r *recorder, masters map[int]side) error {
	as := map[int]int{}
	return f.eachFile(func(s side) error {
		if s.f.Kind != state.FilePty || s.f.Master {
			return nil
		}
		n, known := as[s.f.Number]
		if !known && len(as)+len(masters) >= state.MaxTerminals {
			return refusal.New(terminalRemedy, "%d pseudo-terminals", len(as)+len(masters))
		}
		if !known {
			for n = s.f.Number % state.MaxTerminals; r.state.TerminalOf(n) != nil || masters[n].f != nil; n = (n + 1) % state.MaxTerminals {
			}
			as[s.f.Number] = n
			r.state.Terminals = append(r.state.Terminals, state.Terminal{Number: n, Gone: true})
		}
		s.f.Number = n
		return nil
	})
}

// eachFile does something with all descriptors of the family.
func (f *family) eachFile(do func(side) error) error {
	for i, r := range f.records {
		for j := range r.state.Files {
			if err := do(side{f.stands[i], &r.state.Files[j]}); err != nil {
				return f.stands[i].g.named(err)
			}
		}
	}
	return nil
}

// recordTerminal describes one, by the side where what is typed comes from.
func (f *family) recordTerminal(number int, master side) (t state.Terminal, err error) {
	fd, err := master.get()
	if err != nil {
		return t, err
	}
	defer unix.Close(fd)
	t.Number = number
	if err := checkOdd(fd); err != nil {
		return t, err
	}
	if err := f.recordControl(&t, fd); err != nil {
		return t, err
	}
	sides, err := f.findSides(&t)
	if err != nil {
		return t, err
	}
	p := []unix.PollFd{{Fd: int32(fd)}}
	if _, err := unix.Poll(p, 0); sides == 0 && (err != nil || p[0].Revents&unix.POLLHUP == 0) {
		return t, refusal.New(terminalRemedy, "it was not opened yet, or somebody else has it")
	}
	if t.Locked, err = terminal.Locked(fd); err != nil {
		return t, err
	}
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return t, err
	}
	t.Size = [4]uint16{size.Row, size.Col, size.Xpixel, size.Ypixel}
	return t, recordTyped(&t, fd)
}

// checkOdd refuses what cannot be told, or is not carried over.
func checkOdd(fd int) error {
	for _, odd := range []struct {
		ioctl uint
		what  string
	}{
		{unix.TIOCGPKT, "it tells its other side of what happens (TIOCPKT)"},
		{unix.TIOCGEXCL, "nobody can open it any more (TIOCEXCL)"},
		{unix.TIOCGETD, "it has a line discipline of its own"},
	} {
		if n, err := unix.IoctlGetInt(fd, odd.ioctl); err != nil || n != 0 {
			return refusal.New(terminalRemedy, "%s", odd.what)
		}
	}
	return nil
}

// recordControl records which session it controls, and which process group is in the foreground.
func (f *family) recordControl(t *state.Terminal, fd int) error {
	sid, err := unix.IoctlGetInt(fd, unix.TIOCGSID)
	if errors.Is(err, unix.ENOTTY) || err == nil && sid == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for i, st := range f.stands[1:] {
		if st.g.PID == sid && f.living[i].Session == f.living[i].ID {
			t.Session = f.living[i].ID
		}
	}
	if t.Session == 0 {
		return refusal.New("have a child process begin the session", "it controls a session whose first process is the first of all, or has ended")
	}
	team, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return err
	}
	for i, st := range f.stands[1:] {
		k := &f.living[i]
		if k.Session != t.Session {
			continue
		}
		if pgid, err := unix.Getpgid(st.g.PID); err == nil && pgid == team && k.Team != t.Session {
			t.Team = k.Team
		}
		s, err := proc.Parsed(st.g.PID, "stat", procfs.ParseStat)
		if n, _ := numberOf(&unix.Stat_t{Rdev: s.TTY, Mode: unix.S_IFCHR}); err == nil && n != t.Number {
			err = refusal.New("let it have it", "process %d is in the session that it controls, and does not have it", k.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findSides finds the descriptors of a terminal: by its name, or by /dev/tty in the session that it controls.
func (f *family) findSides(t *state.Terminal) (n int, err error) {
	var folder unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s", f.stands[0].g.PID, trace.Terminals), &folder); err != nil {
		return 0, err
	}
	known := map[state.Ref]bool{}
	err = f.eachFile(func(s side) error {
		var is bool
		switch own := s.st.g.idOf(s.st.g.PID); {
		case s.f.Kind != state.FileRegular || s.f.Mode&unix.S_IFMT != unix.S_IFCHR:
			return nil
		case s.f.From != nil:
			is = known[*s.f.From]
		case s.f.Same != s.f.FD:
			is = known[state.Ref{ID: own, FD: s.f.Same}]
		case s.f.Path == "/dev/tty":
			is = f.sessionOf(own) == t.Session && t.Session != 0
		default:
			is = s.f.Dev == folder.Dev && s.f.Path == trace.Terminals+"/"+strconv.Itoa(t.Number)
		}
		if !is {
			return nil
		}
		known[state.Ref{ID: s.st.g.idOf(s.st.g.PID), FD: s.f.FD}] = true
		s.f.Kind, s.f.Number, s.f.Path = state.FilePty, t.Number, ""
		n++
		return s.checkHangup()
	})
	return n, err
}

// sessionOf gives the session that a process of the family is in, 0 if it is that of the first.
func (f *family) sessionOf(id int) int {
	for i := range f.living {
		if f.living[i].ID == id {
			return f.living[i].Session
		}
	}
	return 0
}

// checkHangup refuses a descriptor that is unusable although its terminal is not.
func (s *side) checkHangup() error {
	if s.f.Flags&unix.O_PATH != 0 {
		return refusal.New(terminalRemedy, "descriptor %d of it is only a path", s.f.FD)
	}
	fd, err := s.get()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	p := []unix.PollFd{{Fd: int32(fd)}}
	if _, err := unix.Poll(p, 0); err != nil || p[0].Revents&unix.POLLHUP != 0 {
		return refusal.New(terminalRemedy, "descriptor %d of it has hung up, at the end of a session", s.f.FD)
	}
	return nil
}

// recordTyped notes the settings and what waits, and leaves it there.
func recordTyped(t *state.Terminal, master int) error {
	settings, err := terminal.Get(master)
	if err != nil {
		return err
	}
	t.Settings = terminal.Bytes(settings)
	if settings.Lflag&unix.EXTPROC != 0 {
		return refusal.New(terminalRemedy, "its other side makes its lines (EXTPROC)")
	}
	peer, err := terminal.Peer(master)
	if err != nil {
		return err
	}
	defer unix.Close(peer)
	if n, err := unix.IoctlGetInt(peer, unix.TIOCINQ); err != nil || n > mostTyped {
		return refusal.New("read it", "%d bytes that were typed wait to be read", n)
	}
	c, err := terminal.Take(master, peer, settings)
	if e := terminal.Put(master, peer, settings, c); err == nil {
		err = e
	}
	t.Lines, t.Typed, t.Output = c.Lines, c.Typed, c.Output
	return err
}
