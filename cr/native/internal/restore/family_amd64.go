package restore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A process that had children is restored with all that descend from it, in a trace.Place of their own,
// which ends when it does:
//
//	the first     is made as one without children is, with the descriptors of all
//	each other    is made by its parent, with its id, before or after that begins a session;
//	              executes its program; takes its descriptors to their numbers
//	groups        are formed when all are there
//	those that    end, with the status that they had
//	had ended
//	all           get their memory and threads, and then go on together

// ended is one that had ended and was not waited for.
type ended struct {
	kin state.Kin
	pid int
	in  *trace.Injector
}

// isFamily tells a process that had children.
func (r *restore) isFamily() bool { return len(r.state.Family)+len(r.state.Ended) > 0 }

// each does something with all of the family, the first one first.
func (r *restore) each(do func(*restore) error) error {
	for _, m := range append([]*restore{r}, r.kin...) {
		if err := do(m); err != nil {
			return m.named(err)
		}
	}
	return nil
}

// named adds the process of the family to an error.
func (r *restore) named(err error) error {
	if err == nil || r.first == nil {
		return err
	}
	return fmt.Errorf("child process %d (%s): %w", r.state.PID, r.state.Comm, err)
}

// prepareFamily does for the others what prepare does for the first.
func (r *restore) prepareFamily() error {
	for _, s := range r.state.Members {
		m := &restore{first: r, state: s, o: r.o, files: r.files}
		m.o.Program, m.o.Hold = childsProgram(s, r.o.Program), r.o.Hold && r.o.Attends && r.held == nil && s.Kin.Parent == r.state.PID
		if m.o.Hold {
			r.held = m
		}
		r.kin = append(r.kin, m)
		var err error
		if m.images, err = r.images.of(s); err == nil {
			err = m.plan()
		}
		if err == nil {
			var st os.FileInfo
			if st, err = os.Stat(s.Dir); s.DirGone || err != nil || !st.IsDir() {
				err = fileError(s.Dir, "make the folder again", "the working directory is not there")
			}
		}
		if err != nil {
			return m.named(err)
		}
	}
	r.o.Hold = r.o.Hold && r.held == nil
	for _, k := range r.state.Ended {
		r.over = append(r.over, &ended{kin: k})
	}
	return nil
}

// openMaps opens the files that are mapped, and gives numbers to all that only the making of the family needs.
func (r *restore) openMaps() error {
	r.base = 3
	for _, s := range r.state.All() {
		for i := range s.Files {
			r.base = max(r.base, s.Files[i].FD+1)
		}
	}
	next := r.base
	err := r.each(func(m *restore) error {
		m.base, m.maps.kept = r.base, r.o.Program
		err := m.maps.open(m.state, next, m.o.Program, m.filled, r.files.deleted)
		next += len(m.maps.paths)
		return err
	})
	for _, m := range r.kin {
		for _, here := range r.files.tables[m.state.PID] {
			if !slices.Contains(r.slots, here) {
				r.slots = append(r.slots, here)
			}
		}
	}
	for _, m := range r.kin {
		if err == nil {
			var fd int
			fd, err = r.files.keep(unix.Open(m.o.Program, unix.O_PATH|unix.O_CLOEXEC, 0))
			r.slots = append(r.slots, fd) // the last ones
		}
	}
	return err
}

// firstSlot is the number of the first of these in the processes.
func (r *restore) firstSlot() int { return r.placeFD() - len(r.slots) }

// findPlaceOfAll finds a place for the family without other processes.
func (r *restore) findPlaceOfAll(t *trace.Threads, how string) error {
	if how == idsNew {
		return fmt.Errorf("-param %s=%s: it had child processes, and a parent knows these by the ids that they had (use %s)", ParamIDs, idsNew, idsAuto)
	}
	p, err := t.Place(r.state.IDs(), true)
	if err != nil {
		return fmt.Errorf("it had child processes, which need the ids that they had: %w", err)
	}
	r.place, r.threads = p, t
	for _, m := range r.kin {
		m.place, m.threads = p, t
	}
	return nil
}

// giveUpPlace is for a restore that has failed.
func (r *restore) giveUpPlace(t *trace.Threads) {
	switch {
	case r.place == nil:
	case r.isFamily():
		t.EndPlace(r.place)
	default:
		t.Belong(r.place, r.ids, 0)
	}
}

// bearAll makes those that descend from the first.
func (r *restore) bearAll() error {
	if !r.isFamily() {
		return nil
	}
	if err := r.bearChildren(r); err != nil {
		return err
	}
	for _, leaders := range []bool{true, false} {
		if err := r.formTeams(leaders); err != nil {
			return err
		}
	}
	for _, e := range r.over {
		if err := e.end(); err != nil {
			return fmt.Errorf("child process %d (%s), which had ended: %w", e.kin.ID, e.kin.Name, err)
		}
	}
	return r.each(func(m *restore) error {
		if err := m.forgetEnds(r.over); err != nil {
			return err
		}
		return m.takeFiles()
	})
}

// bearChildren makes the children of a process, and their children: those first that were born before it began a session.
func (r *restore) bearChildren(p *restore) error {
	id := p.state.PID
	own := state.Kin{ID: id}
	if p.state.Kin != nil {
		own = *p.state.Kin
	}
	for _, early := range []bool{true, false} {
		if !early && own.Session == id {
			if err := p.puppet.run(p.pid, []call{{what: "a session of its own", nr: unix.SYS_SETSID}}); err != nil {
				return p.named(err)
			}
			if err := r.takeTerminal(p); err != nil {
				return p.named(err)
			}
		}
		for _, m := range r.kin {
			if k := m.state.Kin; k.Parent != id || k.Early(&own) != early {
				continue
			}
			if err := m.born(p); err != nil {
				return m.named(err)
			}
			if err := r.bearChildren(m); err != nil {
				return err
			}
		}
		for _, e := range r.over {
			if e.kin.Parent != id || e.kin.Early(&own) != early {
				continue
			}
			if err := e.born(p); err != nil {
				return fmt.Errorf("child process %d (%s), which had ended: %w", e.kin.ID, e.kin.Name, err)
			}
		}
	}
	return nil
}

// bear has a process make a child with an id, which stands then.
func (p *restore) bear(k *state.Kin) (pid int, err error) {
	in, err := trace.Begin(p.pid, p.text)
	if err != nil {
		return 0, err
	}
	const signalAt = 32 // in struct clone_args
	at := p.puppet.scratch + areaCode + areaCalls
	args := trace.CloneArgs(unix.CLONE_PTRACE, k.ID)
	binary.LittleEndian.PutUint64(args[signalAt:], uint64(k.Sends))
	binary.LittleEndian.PutUint64(args[trace.IDPointer:], at+trace.IDAt)
	if err := p.puppet.mem.Poke(args, at); err != nil {
		return 0, err
	}
	err = trace.WhileTaken(func() (err error) {
		pid, _, err = in.Bear(unix.SYS_CLONE3, at, trace.CloneArgsSize)
		return err
	})
	if err != nil {
		return pid, fmt.Errorf("a process with the id %d: %w", k.ID, err)
	}
	if err := in.End(); err != nil {
		return pid, err
	}
	s, err := trace.WaitStop(pid, trace.CallLimit)
	if err == nil && s.Exited {
		err = whole.ErrDied
	}
	return pid, err
}

// born makes the process, and has it execute its program: it is as fresh then as the first one was.
func (r *restore) born(parent *restore) (err error) {
	if r.pid, err = parent.bear(r.state.Kin); err != nil {
		return err
	}
	in, err := trace.Begin(r.pid, parent.text)
	if err != nil {
		return err
	}
	if err := r.execute(in); err != nil {
		return fmt.Errorf("executing %s: %w", r.o.Program, err)
	}
	return r.takeOver()
}

// execute executes the program.
func (r *restore) execute(in *trace.Injector) error {
	const execEvents = unix.PTRACE_O_TRACEEXEC // instead of a signal
	if err := trace.SetOptions(r.pid, trace.TraceOptions|execEvents); err != nil {
		return err
	}
	argv := splitStrings(r.state.Cmdline)
	if len(argv) == 0 {
		argv = []string{r.state.Exe}
	}
	env := splitStrings(r.state.Environ)
	var text []byte
	place := func(list ...string) (at []uint64) {
		for _, s := range list {
			at = append(at, uint64(len(text)))
			text = append(append(text, s...), 0)
		}
		return at
	}
	dir, empty, args, vars := place(r.state.Dir), place(""), place(argv...), place(env...)
	text = append(text, make([]byte, -len(text)&7)...)
	size := uint64(len(text) + 8*(len(args)+len(vars)+2) + 64)
	at, err := in.Call(unix.SYS_MMAP, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0)
	if err != nil {
		return err
	}
	lists := [2]uint64{}
	for i, list := range [][]uint64{args, vars} {
		lists[i] = at + uint64(len(text))
		for _, offset := range list {
			text = le.AppendUint64(text, at+offset)
		}
		text = le.AppendUint64(text, 0)
	}
	mem, err := trace.OpenMemory(r.pid)
	if err != nil {
		return err
	}
	defer mem.Close()
	if err := mem.Poke(text, at); err != nil {
		return err
	}
	if _, err := in.Call(unix.SYS_CHDIR, at+dir[0]); err != nil {
		return fmt.Errorf("changing to %s: %w", r.state.Dir, err)
	}
	if r.place.User {
		if err := keepRights(in, mem, at+uint64(len(text))); err != nil {
			return err
		}
	}
	slots := r.first.slots
	exe := r.first.firstSlot() + len(slots) - len(r.first.kin) + slices.Index(r.first.kin, r)
	_, err = in.Call(unix.SYS_EXECVEAT, uint64(exe), at+empty[0], lists[0], lists[1], unix.AT_EMPTY_PATH)
	return err
}

// keepRights makes a process keep, over exec, the rights to make others with their ids, in a user
// namespace of its own. It lies at the 64 bytes that are free at an address.
func keepRights(in *trace.Injector, mem *trace.Memory, at uint64) error {
	const raise = 2 // PR_CAP_AMBIENT_RAISE
	rights := []uint64{unix.CAP_SYS_ADMIN, unix.CAP_CHECKPOINT_RESTORE}
	var p [32]byte
	le.PutUint32(p[:], unix.LINUX_CAPABILITY_VERSION_3)
	if err := mem.Poke(p[:], at); err != nil {
		return err
	}
	if _, err := in.Call(unix.SYS_CAPGET, at, at+8); err != nil {
		return fmt.Errorf("its capabilities: %w", err)
	}
	if err := mem.Peek(p[:], at); err != nil {
		return err
	}
	for i := 8; i < 32; i += 12 { // effective, permitted, inheritable
		copy(p[i+8:i+12], p[i+4:i+8])
	}
	if err := mem.Poke(p[:], at); err != nil {
		return err
	}
	if _, err := in.Call(unix.SYS_CAPSET, at, at+8); err != nil {
		return fmt.Errorf("its capabilities: %w", err)
	}
	for _, right := range rights {
		if _, err := in.Call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, raise, right, 0, 0); err != nil {
			return fmt.Errorf("its capability %d: %w", right, err)
		}
	}
	return nil
}

// formTeams puts processes into their groups: those that lead one first.
func (r *restore) formTeams(leaders bool) error {
	for _, m := range r.kin {
		k := m.state.Kin
		if k.Team == 0 || k.Session == k.ID || (k.Team == k.ID) != leaders {
			continue
		}
		if err := m.puppet.run(m.pid, []call{{what: "its process group", nr: unix.SYS_SETPGID, args: [6]uint64{0, uint64(k.Team)}}}); err != nil {
			return m.named(err)
		}
	}
	for _, e := range r.over {
		k := &e.kin
		if k.Team == 0 || k.Session == k.ID || (k.Team == k.ID) != leaders {
			continue
		}
		if _, err := e.in.Call(unix.SYS_SETPGID, 0, uint64(k.Team)); err != nil {
			return fmt.Errorf("child process %d (%s), which had ended: its process group: %w", k.ID, k.Name, err)
		}
	}
	return nil
}

// born makes one that is to end at once.
func (e *ended) born(parent *restore) (err error) {
	if e.pid, err = parent.bear(&e.kin); err != nil {
		return err
	}
	if e.in, err = trace.Begin(e.pid, parent.text); err != nil {
		return err
	}
	if e.kin.Session == e.kin.ID {
		if _, err := e.in.Call(unix.SYS_SETSID); err != nil {
			return fmt.Errorf("a session of its own: %w", err)
		}
	}
	mem, err := trace.OpenMemory(e.pid)
	if err != nil {
		return err
	}
	defer mem.Close()
	at := parent.puppet.scratch + areaCode + areaCalls
	if err := mem.Poke(append([]byte(e.kin.Name), 0), at); err != nil {
		return err
	}
	_, err = e.in.Call(unix.SYS_PRCTL, unix.PR_SET_NAME, at)
	return err
}

// end has it end as it did.
func (e *ended) end() error {
	exit, sig := e.kin.Code()
	if sig == 0 {
		if err := e.in.Start(unix.SYS_EXIT_GROUP, uint64(exit)); err != nil {
			return err
		}
		if err := e.in.Enter(); err != nil {
			return err
		}
	} else if err := e.endBy(sig); err != nil {
		return err
	}
	s, err := trace.WaitEnd(e.pid, trace.CallLimit)
	if err != nil {
		return err
	}
	if want := exit + int(sig); !s.Exited || s.Killed != (sig != 0) || s.Status != want {
		return fmt.Errorf("it %v, as it was to end with %#x", s, e.kin.Status)
	}
	return trace.Reap(e.pid, trace.KillLimit)
}

// endBy has it end by a signal, without a dump of its memory.
func (e *ended) endBy(sig unix.Signal) error {
	if err := unix.Prlimit(e.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return err
	}
	if err := unix.Kill(e.pid, sig); err != nil || sig == unix.SIGKILL {
		return err
	}
	if err := trace.SetMask(e.pid, 0); err != nil {
		return err
	}
	if err := trace.Resume(e.pid, 0); err != nil {
		return err
	}
	s, err := trace.WaitStop(e.pid, trace.CallLimit)
	if err == nil && !s.Exited {
		err = trace.Resume(e.pid, s.Sig)
	}
	return err
}

// forgetEnds takes the signals that tell a process of the ends of children: what it had not seen of them is in the image.
func (r *restore) forgetEnds(all []*ended) error {
	var set uint64
	for _, e := range all {
		if e.kin.Parent == r.state.PID && e.kin.Sends > 0 {
			set |= 1 << (e.kin.Sends - 1)
		}
	}
	return r.forgetSignals(set)
}

// forgetSignals takes those of a set that wait.
func (r *restore) forgetSignals(set uint64) error {
	if set == 0 {
		return nil
	}
	const setSize = 8
	data := append(le.AppendUint64(nil, set), make([]byte, 16)...) // and no time
	var calls []call
	for range 64 {
		if set == 0 {
			break
		}
		set &= set - 1
		calls = append(calls, call{what: "taking a signal", nr: unix.SYS_RT_SIGTIMEDWAIT, args: [6]uint64{0, 0, 0, setSize}, data: data, at: 0, next: 2, skip: setSize, may: true})
	}
	return r.puppet.run(r.pid, calls)
}

// takeFiles takes the descriptors of a process that descends from the first to their numbers.
func (r *restore) takeFiles() error {
	if r.first == nil {
		return nil
	}
	calls := []call{{what: "closing", nr: unix.SYS_CLOSE_RANGE, args: [6]uint64{0, uint64(r.base - 1)}}}
	for fd, here := range r.files.tables[r.state.PID] {
		slot := r.first.firstSlot() + slices.Index(r.first.slots, here)
		calls = append(calls, call{what: fmt.Sprintf("descriptor %d", fd), nr: unix.SYS_DUP3, args: [6]uint64{uint64(slot), uint64(fd)}})
	}
	return r.puppet.run(r.pid, calls)
}

// openPidfds opens descriptors of processes, which are all there now.
func (r *restore) openPidfds() error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		if f.Kind != state.FilePidfd {
			continue
		}
		fd := -1
		what := fmt.Sprintf("descriptor %d, of process %d", f.FD, f.Target)
		err := r.puppet.run(r.pid, []call{{what: what, nr: unix.SYS_PIDFD_OPEN, args: [6]uint64{uint64(f.Target), uint64(f.Flags & unix.O_NONBLOCK)},
			done: func(n uint64) { fd = int(n) }}})
		if err == nil && fd != f.FD {
			err = r.puppet.run(r.pid, []call{dupCall(fd, f), {what: what, nr: unix.SYS_CLOSE, args: [6]uint64{uint64(fd)}}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// releaseAll lets all go: first those that were stopped, since what their parents are told of that is taken from them.
func (r *restore) releaseAll() error {
	if err := r.each((*restore).bindNames); err != nil {
		return err
	}
	if r.isFamily() { // all are there still, and none writes yet
		if err := r.files.finish(); err != nil {
			return err
		}
	}
	for _, stopped := range []bool{true, false} {
		for i := len(r.kin) - 1; i >= 0; i-- {
			m := r.kin[i]
			if (m.state.Kin.Stopped != 0) != stopped {
				continue
			}
			if err := m.release(); err != nil {
				return m.named(err)
			}
			if err := m.stop(); err != nil {
				return m.named(err)
			}
		}
	}
	return r.release()
}

// stop waits until a process that was stopped is, and takes from its parent what that knows of it.
func (r *restore) stop() error {
	k := r.state.Kin
	if k.Stopped == 0 {
		return nil
	}
	var b trace.Backoff
	for {
		s, err := proc.Parsed(r.pid, "stat", procfs.ParseStat)
		if err != nil || s.Ending() {
			return errors.Join(err, whole.ErrDied)
		}
		if s.State == 'T' {
			break
		}
		if !b.Sleep(trace.CallLimit) {
			return fmt.Errorf("it does not stop by signal %d", k.Stopped)
		}
	}
	parent := r.first
	if i := slices.IndexFunc(r.first.kin, func(m *restore) bool { return m.state.PID == k.Parent }); i >= 0 {
		parent = r.first.kin[i]
	}
	if k.Unseen {
		return nil
	}
	known := uint64(1) << (unix.SIGCHLD - 1)
	for _, info := range parent.state.Shared {
		if state.SignalOf(info) == int(unix.SIGCHLD) {
			known = 0
		}
	}
	err := parent.puppet.run(parent.pid, []call{{what: "waiting for a stopped child", nr: unix.SYS_WAITID,
		args: [6]uint64{unix.P_PID, uint64(k.ID), 0, unix.WSTOPPED | unix.WNOHANG}}})
	if err == nil {
		err = parent.forgetSignals(known)
	}
	return err
}

// endAll ends the whole family.
func (r *restore) endAll() error {
	var errs []error
	for i := len(r.kin) - 1; i >= 0; i-- {
		if r.kin[i].pid != 0 {
			errs = append(errs, endTraced(r.kin[i].pid))
		}
	}
	for _, e := range r.over {
		if e.pid != 0 {
			errs = append(errs, endTraced(e.pid))
		}
	}
	return errors.Join(append(errs, endTraced(r.pid))...)
}
