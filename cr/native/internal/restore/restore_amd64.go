//go:build linux

package restore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/code"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/native/internal/vdso"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Start starts a process that goes on from an image. It is a child of this
// process in a process group of its own, and dies with the tracer.
// It stands before its first step, having changed no file, until Go or End decides.
// Only Go cuts the files that the process goes on in to the length that they had.
func Start(t *trace.Threads, o whole.RestoreOptions) (*whole.Restored, error) {
	r := &restore{o: o, files: &descriptors{}}
	failed := func(err error) error {
		if e := (*image.Error)(nil); errors.As(err, &e) && e.Path == o.Image.String() {
			return err // it names the image
		}
		return fmt.Errorf("%s: %w", o.Image, err)
	}
	th, err := makeOn(t, r)
	if err != nil {
		r.close()
		r.giveUpPlace(t)
		r.files.unlock()
		r.files.removeCopies()
		return nil, failed(err)
	}
	r.shed()
	back := &whole.Restored{PID: r.pid, Held: r.heldPID(), Unread: r.state.Unread, Warn: strings.Join(r.files.notes, "; "), Extensions: r.state.Host.Flags}
	for _, m := range r.kin {
		r.unusual = append(r.unusual, m.unusual...)
	}
	for _, m := range append([]*restore{r}, r.kin...) {
		if m.why != "" && !slices.ContainsFunc(r.unusual, func(s string) bool { return strings.HasSuffix(s, m.why) }) {
			r.unusual = append(r.unusual, "the kernel's clock functions were replaced: "+m.why)
		}
	}
	if r.place != nil && r.place.User {
		r.unusual = append(r.unusual, othersFiles)
	}
	back.Note = strings.Join(r.unusual, "; ")
	for _, l := range r.files.locks {
		l.Of(r.pid)
	}
	// The locks on the process's output files are held until it has ended.
	back.Close = func() error {
		r.files.unlock()
		if r.isFamily() {
			t.EndPlace(r.place) // with all that descends from the process
		}
		return nil
	}
	if len(r.files.common) > 0 {
		back.Cut = func() error {
			err := r.files.cutCommon()
			back.Tails = r.files.tails
			return err
		}
	}
	decided := false
	decide := func(goOn bool) error {
		if decided {
			return nil
		}
		decided = true
		defer r.close()
		if !th.Do(func() { err = r.settle(goOn) }) {
			err = trace.ErrClosed // and so it has ended
		}
		back.Tails = r.files.tails
		if err != nil || !goOn {
			r.files.unlock()
			if r.isFamily() {
				t.EndPlace(r.place)
			}
		}
		if err != nil {
			return failed(err)
		}
		return nil
	}
	back.Go = func() error { return decide(true) }
	back.End = func() error { return decide(false) }
	return back, nil
}

// othersFiles is what is unusual in a namespace of users.
const othersFiles = "files of other users look as if they were nobody's: it has its ids in a namespace of users"

// heldPID is the process that is held in place of the first, 0 if none is.
func (r *restore) heldPID() int {
	if r.held == nil {
		return 0
	}
	return r.held.pid
}

// makeOn makes the process, which stands then, traced by the thread returned.
func makeOn(t *trace.Threads, r *restore) (*trace.Thread, error) {
	err := r.prepare()
	if err == nil {
		err = r.findPlace(t)
	}
	if err != nil {
		return nil, err
	}
	th := t.Pick()
	if !th.Do(func() { err = r.run() }) {
		err = trace.ErrClosed
	}
	return th, err
}

// settle lets the process go, or ends it. It is called on the thread that traces.
func (r *restore) settle(goOn bool) error {
	if !goOn {
		r.files.removeCopies()
		return r.endAll()
	}
	return r.undone(r.releaseAll())
}

// restore is one restore in progress.
type restore struct {
	o       whole.RestoreOptions
	images  chain
	state   *state.State
	windows []windowPlan
	filled  map[int]int  // pages to be written, by region
	gone    goneFolder   // that the process is in
	files   *descriptors // of the whole family
	maps    mappedFiles
	base    int // from here on are the descriptors that only the making of the family needs

	first *restore   // of the family, nil if it is that
	kin   []*restore // of the first: those that descend from it, each after its parent
	over  []*ended   // of the first: those that have ended
	held  *restore   // of the first: the one to be held in its place
	slots []int      // of the first: descriptors here that the others get, in the order of their numbers there

	masters map[int]int // of the first: descriptors here of the other sides of terminals, by number, as long as they are made

	pid    int
	text   uint64 // of a syscall instruction of the fresh process
	puppet puppet
	shell  shell
	layout layout
	copier pageCopier
	offset vdso.Offset
	why    string // of the bridge
	tids   []int  // in the order of state.Threads

	threads *trace.Threads
	place   *trace.Place // where it has the ids that it had, nil: it has new ones
	noPlace error        // why it has none although it was to have one
	ids     []int        // that it had, in the order of state.Threads

	program runtimes.Program
	ofGo    []uint64        // what Go's run-time notes of threads, 0 of those that are not its
	rseq    map[uint64]bool // restartable sequences by their area, and if the kernel took them
	owners  *owners
	unusual []string
}

// prepare does all that can fail without a process.
func (r *restore) prepare() (err error) {
	if r.o.Files != whole.FilesStand && !slices.Contains(whole.FilesPolicies, string(r.o.Files)) {
		return fmt.Errorf("unknown policy for open files %q (known are %s)", r.o.Files, strings.Join(whole.FilesPolicies, ", "))
	}
	if r.images, err = openChain(r.o.Image, r.o.Rank, r.o.Base); err != nil {
		return err
	}
	r.state = r.images[0].state
	if err := r.plan(); err != nil {
		return err
	}
	if r.state.DirGone {
		if r.gone, err = makeGone(r.state.Dir); err != nil {
			return err
		}
	} else if st, err := os.Stat(r.state.Dir); err != nil || !st.IsDir() {
		if err == nil {
			err = fs.ErrNotExist
		}
		return fileError(r.state.Dir, "make the folder again", "the working directory: %w", err)
	}
	r.files = &descriptors{
		reopener: reopener{policy: r.o.Files, tag: r.o.Tag, shared: r.o.Shared, rank: r.o.Rank},
		content:  r.images[0].content,
		given:    [3]int{r.o.Stdin, r.o.Stdout, r.o.Stderr},
		oob:      r.o.OOB,
	}
	if err := r.prepareFamily(); err != nil {
		return err
	}
	if err := r.files.open(r.state); err != nil {
		return err
	}
	if err := r.openMaps(); err != nil {
		return err
	}
	return enoughFiles(r.placeFD() + 1)
}

// plan checks that the process can go on here, and lists its memory.
func (r *restore) plan() (err error) {
	if err := r.state.CheckHost(); err != nil {
		return err
	}
	remedy := ranksRemedy
	if r.first != nil {
		remedy = childrenRemedy
	}
	if r.first == nil && r.state.ExeSum != "" { // of several programs this rank's is kept beside the job's
		if its := kept(r.o.Program, r.state.ExeSum); its != r.o.Program {
			if _, err := isProgram(r.state, its, remedy); err == nil {
				r.o.Program = its
			}
		}
	}
	if r.program, err = isProgram(r.state, r.o.Program, remedy); err != nil {
		return err
	}
	for i := range r.state.Threads {
		r.ids = append(r.ids, r.state.Threads[i].TID)
	}
	r.windows, r.filled, err = r.images.plan()
	return err
}

// enoughFiles checks that a process may have n descriptors here.
func enoughFiles(n int) error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	if uint64(n) > lim.Max {
		return fmt.Errorf("%w: descriptors up to %d, the limit here is %d (raise it: ulimit -n, as root beyond ulimit -Hn)", ErrFiles, n-1, lim.Max)
	}
	return nil
}

// shed closes what only the making of the process needed.
func (r *restore) shed() {
	r.files.shed()
	r.images.Close()
	for _, m := range append([]*restore{r}, r.kin...) {
		m.maps.Close()
		m.images, m.windows, m.filled = nil, nil, nil
	}
}

func (r *restore) close() {
	r.gone.remove()
	r.files.Close()
	r.images.Close()
	for _, m := range append([]*restore{r}, r.kin...) {
		m.maps.Close()
		if m.puppet.mem != nil {
			m.puppet.mem.Close()
		}
	}
}

// run makes the process. It is called on a thread of the tracer.
func (r *restore) run() error {
	err := r.makeOnce()
	if err != nil && r.leavePlace(err) {
		err = r.makeOnce()
	}
	return err
}

func (r *restore) makeOnce() error {
	if err := r.exec(); err != nil {
		return err
	}
	err := r.enter()
	if err == nil {
		err = r.become()
	}
	return r.undone(err)
}

// undone ends what there is of the process after an error.
func (r *restore) undone(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, whole.ErrDied) && r.dies(err) {
		err = fmt.Errorf("%w (killed, for want of memory?): %w", whole.ErrDied, err)
	}
	return errors.Join(err, r.endAll())
}

// dies reports whether an error comes from the end of the process: a kill is not
// done at once, and its memory is gone before its end can be seen.
func (r *restore) dies(err error) bool {
	limit := 200 * time.Millisecond
	if errors.Is(err, io.ErrShortWrite) || errors.Is(err, unix.ESRCH) {
		limit = trace.CallLimit
	}
	s, e := trace.WaitStop(r.pid, limit)
	return e == nil && s.Exited
}

// exec starts the program, stopped before its first instruction.
func (r *restore) exec() error {
	s := r.state
	defer r.gone.remove()
	attr := &syscall.ProcAttr{
		Dir:   r.gone.or(s.Dir),
		Env:   splitStrings(s.Environ),
		Files: r.inherited(),
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: true},
	}
	argv := splitStrings(s.Cmdline)
	if len(argv) == 0 {
		argv = []string{s.Exe}
	}
	pid, err := syscall.ForkExec(r.o.Program, argv, attr)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w (keep snapshots where programs may be executed)", err)
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", r.o.Program, err)
	}
	r.pid = pid
	return nil
}

// inherited lists the descriptors that the process is born with, by number: its own, and what only the
// making of the family needs.
func (r *restore) inherited() []uintptr {
	list := make([]uintptr, r.placeFD())
	for i := range list {
		list[i] = ^uintptr(0)
	}
	for there, here := range r.files.here {
		list[there] = uintptr(here)
	}
	for _, m := range append([]*restore{r}, r.kin...) {
		for i, here := range m.maps.here {
			list[m.maps.first+i] = uintptr(here)
		}
	}
	for i, here := range r.slots {
		list[r.firstSlot()+i] = uintptr(here)
	}
	if r.place != nil {
		list = append(list, uintptr(r.place.Descriptor()))
	}
	return list
}

func splitStrings(p []byte) []string {
	if len(p) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(p), "\x00"), "\x00")
}

// become turns the fresh process into the one that was imaged, to be released, and has it
// make those that descend from it.
func (r *restore) become() error {
	if err := r.awaitStart(); err != nil {
		return err
	}
	if err := r.takeOver(); err != nil {
		return err
	}
	defer r.closeTerminals()
	if err := r.makeTerminals(); err != nil {
		return err
	}
	if err := r.bearAll(); err != nil {
		return err
	}
	if err := r.settleTerminals(); err != nil {
		return err
	}
	steps := []func(*restore) error{
		(*restore).openPidfds, (*restore).makeSegments, (*restore).build, (*restore).settleSegments, (*restore).seal, (*restore).openOwn, (*restore).hold, (*restore).fill, (*restore).protect,
		(*restore).lockMemory, (*restore).awaken, (*restore).makeTimers, (*restore).bind, (*restore).setOOMAdj,
	}
	for _, step := range steps {
		if err := r.each(step); err != nil {
			return err
		}
	}
	return nil
}

// awaitStart waits for the stop before the first instruction.
func (r *restore) awaitStart() error {
	s, err := trace.WaitStop(r.pid, trace.CallLimit)
	switch {
	case err != nil:
		return err
	case s.Exited:
		return fmt.Errorf("starting %s: %w", r.o.Program, whole.ErrDied)
	}
	return nil
}

// takeOver learns the layout of the fresh process and gives it the memory from
// which it executes our calls.
func (r *restore) takeOver() error {
	if err := trace.SetOptions(r.pid, trace.TraceOptions); err != nil {
		return fmt.Errorf("tracing the new process: %w", err)
	}
	r.puppet.pid = r.pid
	if r.place != nil {
		r.puppet.ids = map[int]int{r.pid: r.state.PID}
	}
	var err error
	if r.puppet.mem, err = trace.OpenMemory(r.pid); err != nil {
		return err
	}
	if r.text, err = r.inspect(); err != nil {
		return err
	}
	if r.offset, err = vdso.OffsetFrom(r.state.Mono, r.state.Boottime); err != nil {
		return err
	}
	if r.state.VDSO.Busy && (!r.offset.None() || !fitsPlace(&r.shell.vdso, &r.state.VDSO)) {
		return fmt.Errorf("%w: a signal had interrupted a thread in the kernel's clock function; here is another kernel, or the clock is behind (restart from another snapshot)", state.ErrHost)
	}
	if r.layout, err = layOut(r.state, &r.shell, areaSize, !r.offset.None()); err != nil {
		return err
	}
	in, err := trace.Begin(r.pid, r.text)
	if err != nil {
		return err
	}
	r.puppet.base = in.Own
	r.puppet.scratch = r.layout.scratch
	for _, m := range []struct{ at, size, prot uint64 }{
		{r.layout.scratch, areaCode, unix.PROT_READ | unix.PROT_EXEC},
		{r.layout.scratch + areaCode, areaSize - areaCode, unix.PROT_READ | unix.PROT_WRITE},
	} {
		if _, err := in.Call(unix.SYS_MMAP, m.at, m.size, m.prot, mapFixed|unix.MAP_ANONYMOUS, ^uint64(0), 0); err != nil {
			return fmt.Errorf("memory in the new process: %w", err)
		}
	}
	if err := r.puppet.mem.Poke(code.Batch(), r.layout.scratch); err != nil {
		return err
	}
	return r.raiseLimits()
}

// inspect reads the layout of the fresh process and finds a system call
// instruction in it.
func (r *restore) inspect() (text uint64, err error) {
	if r.shell.maps, err = proc.Parsed(r.pid, "maps", proc.ParseMaps); err != nil {
		return 0, err
	}
	for _, m := range r.shell.maps {
		switch {
		case m.Path == "[vdso]":
			r.shell.vdso.Start, r.shell.vdso.End = m.Start, m.End
		case strings.HasPrefix(m.Path, "[vvar"):
			r.shell.vdso.VVar = append(r.shell.vdso.VVar, state.Region{Start: m.Start, End: m.End})
		}
	}
	if v := &r.shell.vdso; v.End > 0 {
		code := make([]byte, v.End-v.Start)
		if err := r.puppet.mem.Peek(code, v.Start); err != nil {
			return 0, err
		}
		if v.Sum, v.Symbols, err = vdso.Read(code); err != nil {
			return 0, err
		}
	}
	return trace.FindSyscall(r.puppet.mem, r.shell.maps)
}

// raiseLimits does what every Go program does when it starts: it may have as many
// files open as its user may, and lock as much memory. The program's own limits
// come last.
func (r *restore) raiseLimits() error {
	for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_MEMLOCK} {
		var lim unix.Rlimit
		if err := unix.Prlimit(r.pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		lim.Cur = lim.Max
		if err := unix.Prlimit(r.pid, resource, &lim, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// fill writes the memory.
func (r *restore) fill() error {
	r.copier.join(r.pid, r.copied())
	defer r.copier.leave()
	var err error
	if r.owners, err = r.newOwners(); err != nil {
		return err
	}
	return r.images.fill(&r.copier, r.windows, r.owners)
}

// release sends the threads of one process on their way.
func (r *restore) release() error {
	for _, step := range []func() error{r.startTimers, r.clearScratch, r.setThreads} {
		if err := step(); err != nil {
			return err
		}
	}
	if r.first == nil && !r.isFamily() { // one that has been killed meanwhile was found out by this
		if err := r.files.finish(); err != nil {
			return err
		}
	}
	if err := r.setAttributes(); err != nil {
		return err
	}
	if r.first != nil && r.state.Kin.Stopped != 0 {
		if err := r.nudge(); err != nil {
			return err
		}
		return r.stopWith(unix.Signal(r.state.Kin.Stopped))
	}
	if !r.o.Hold {
		if err := r.nudge(); err != nil {
			return err
		}
		return r.detach()
	}
	// The signal is there before the first thread runs: none gets past it, or further
	// than to the beginning of a handler, if another signal was on its way.
	if err := r.stopWith(unix.SIGSTOP); err != nil {
		return err
	}
	return r.nudge()
}

// stopWith lets the threads go to be stopped by a signal at once.
func (r *restore) stopWith(sig unix.Signal) error {
	if err := unix.Kill(r.pid, sig); err != nil {
		return fmt.Errorf("holding the process: %w", err)
	}
	if err := r.detach(); err != nil {
		return err
	}
	if r.first != nil {
		return nil // another's child, whose stops its parent is told
	}
	if s, err := trace.WaitStop(r.pid, trace.CallLimit); err != nil || s.Exited {
		return fmt.Errorf("holding the process: %w", cmp.Or(err, whole.ErrDied))
	}
	return nil
}

// nudge sends every thread of Go's the runtime's preemption signal: it does what one
// that was lost was to do, and nothing otherwise.
func (r *restore) nudge() error {
	for i, tid := range r.tids {
		if r.ofGo == nil || r.ofGo[i] == 0 {
			continue
		}
		if err := unix.Tgkill(r.pid, tid, unix.SIGURG); err != nil {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	return nil
}

// detach lets all threads go. From the first on, the program may do whatever it
// does, and end: its other threads are dead then, and those that were still
// traced have to be reaped here. That it ends is its parent's matter.
func (r *restore) detach() error {
	for i := len(r.tids) - 1; i >= 0; i-- {
		switch err := trace.Detach(r.tids[i], 0); {
		case err == nil:
		case !errors.Is(err, unix.ESRCH) || i == len(r.tids)-1:
			return fmt.Errorf("letting thread %d go: %w", r.tids[i], err)
		case r.tids[i] != r.pid:
			trace.Reap(r.tids[i], trace.KillLimit)
		}
	}
	return nil
}

// endTraced kills a process that is traced here and reaps all of it: first its
// other threads, which hold up the leader's end.
func endTraced(pid int) error {
	const limit = 10 * time.Second
	tids, err := proc.Threads(pid)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending process %d: %w", pid, err)
	}
	if err != nil {
		tids = nil
	}
	for _, tid := range tids {
		if tid != pid {
			if err := trace.Reap(tid, limit); err != nil {
				return err
			}
		}
	}
	return trace.Reap(pid, limit)
}
