package restore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/terminal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Pseudo-terminals are made by the first process, in a namespace where there are none: the kernel gives them numbers
// from 0 on. It puts them where it has, and its children get, placeholders. Who begins a session takes the
// terminal that controls that before it has children, which thereby have it, too.

// makeTerminals makes those of the family.
func (r *restore) makeTerminals() error {
	if len(r.state.Terminals) == 0 {
		return nil
	}
	p, err := trace.OpenProcess(r.pid)
	if err != nil {
		return err
	}
	defer p.Close()
	r.masters = map[int]int{}
	var rest []call // what only takes up numbers, or has hung up
	last := slices.MaxFunc(r.state.Terminals, func(a, b state.Terminal) int { return a.Number - b.Number }).Number
	for n := 0; n <= last; n++ {
		fd, err := r.openHere("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY)
		if err != nil {
			return err
		}
		t := r.state.TerminalOf(n)
		if t != nil {
			err = r.makeTerminal(&p, t, fd)
		}
		if err != nil {
			return fmt.Errorf("the pseudo-terminal %d: %w", n, err)
		}
		rest = append(rest, call{what: "closing", nr: unix.SYS_CLOSE, args: [6]uint64{uint64(fd)}})
	}
	return r.puppet.run(r.pid, rest)
}

// openHere has a process open a file.
func (r *restore) openHere(path string, flags int) (fd int, err error) {
	err = r.puppet.run(r.pid, []call{{what: path, nr: unix.SYS_OPEN, args: [6]uint64{0, uint64(flags)}, data: append([]byte(path), 0),
		done: func(n uint64) { fd = int(n) }}})
	return fd, err
}

func pathOf(t *state.Terminal) string { return trace.Terminals + "/" + strconv.Itoa(t.Number) }

// makeTerminal makes one whose other side is open as fd in the first process.
func (r *restore) makeTerminal(p *trace.Process, t *state.Terminal, fd int) error {
	master, err := p.Getfd(fd)
	if err != nil {
		return err
	}
	r.masters[t.Number] = master
	if n, err := unix.IoctlGetInt(master, unix.TIOCGPTN); err != nil || n != t.Number {
		return fmt.Errorf("it has the number %d: %w", n, errors.Join(err, unix.EEXIST))
	}
	if err := terminal.Lock(master, false); err != nil {
		return err
	}
	for _, m := range append([]*restore{r}, r.kin...) {
		for i := range m.state.Files {
			f := &m.state.Files[i]
			if f.Kind != state.FilePty || f.Number != t.Number || !f.First() {
				continue
			}
			err := r.placeSide(m.state.PID, f, t, fd, master)
			if err != nil {
				return fmt.Errorf("descriptor %d: %w", f.FD, err)
			}
		}
	}
	if t.Gone {
		unix.Close(master)
		delete(r.masters, t.Number)
		return nil
	}
	return fillTerminal(t, master)
}

// placeSide puts a descriptor of a terminal where its placeholders are.
func (r *restore) placeSide(id int, f *state.File, t *state.Terminal, fd, master int) (err error) {
	if f.Master {
		err = setFlags(master, f.Flags)
	} else {
		fd, err = r.openHere(pathOf(t), openFlags(f.Flags)&^unix.O_CLOEXEC)
	}
	if err != nil {
		return err
	}
	var calls []call
	put := func(to int) {
		calls = append(calls, call{what: "a terminal", nr: unix.SYS_DUP3, args: [6]uint64{uint64(fd), uint64(to)}})
	}
	held := r.files.tables[id][f.FD]
	for there, here := range r.files.here {
		if here == held {
			put(there)
		}
	}
	for i, here := range r.slots {
		if here == held {
			put(r.firstSlot() + i)
		}
	}
	if !f.Master {
		calls = append(calls, call{what: "closing", nr: unix.SYS_CLOSE, args: [6]uint64{uint64(fd)}})
	}
	return r.puppet.run(r.pid, calls)
}

// fillTerminal gives one its settings, and what waits in it.
func fillTerminal(t *state.Terminal, master int) error {
	settings, err := terminal.FromBytes(t.Settings)
	if err != nil {
		return err
	}
	peer, err := terminal.Peer(master)
	if err != nil {
		return err
	}
	defer unix.Close(peer)
	size := unix.Winsize{Row: t.Size[0], Col: t.Size[1], Xpixel: t.Size[2], Ypixel: t.Size[3]}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
		return err
	}
	return terminal.Put(master, peer, settings, terminal.Content{Lines: t.Lines, Typed: t.Typed, Output: t.Output})
}

// takeTerminal has a process that has begun a session take the terminal that controls that.
func (r *restore) takeTerminal(p *restore) error {
	for i := range r.state.Terminals {
		if t := &r.state.Terminals[i]; t.Session == p.state.PID {
			return p.withTerminal(t, call{what: "taking the terminal", nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSCTTY}})
		}
	}
	return nil
}

// withTerminal has a process make a call with a terminal, for a moment open.
func (r *restore) withTerminal(t *state.Terminal, c call) error {
	fd, err := r.openHere(pathOf(t), unix.O_RDWR|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	c.args[0] = uint64(fd)
	return r.puppet.run(r.pid, []call{c, {what: "closing", nr: unix.SYS_CLOSE, args: c.args}})
}

// settleTerminals says which groups are in the foreground, when all are there, and locks what was.
func (r *restore) settleTerminals() error {
	for i := range r.state.Terminals {
		t := &r.state.Terminals[i]
		for _, m := range r.kin {
			if t.Team == 0 || m.state.PID != t.Session {
				continue
			}
			team := le.AppendUint32(nil, uint32(t.Team))
			if err := m.withTerminal(t, call{what: "the foreground of the terminal", nr: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSPGRP}, data: team, at: 2}); err != nil {
				return m.named(err)
			}
		}
		if t.Locked {
			if err := terminal.Lock(r.masters[t.Number], true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *restore) closeTerminals() {
	for _, fd := range r.masters {
		unix.Close(fd)
	}
	r.masters = nil
}
