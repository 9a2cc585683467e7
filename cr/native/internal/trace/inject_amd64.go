package trace

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// SyscallInsn is the instruction "syscall".
var SyscallInsn = []byte{0x0f, 0x05}

// AllSignals is the mask that holds back every signal but those that cannot be.
const AllSignals = ^uint64(0)

// CallLimit bounds an injected system call. The longest is the clone of a
// process with very much memory.
const CallLimit = 60 * time.Second

// Injector executes system calls in a stopped thread. Between begin and end the
// thread's own registers and signal mask are kept aside. All methods are to be
// called on the Thread that traces it.
type Injector struct {
	TID  int
	Text uint64 // address of a syscall instruction
	Own  Regs   // what end gives back
	Mask uint64
	born int // by Bear
}

// Begin takes over the stopped thread tid; text is the address of a syscall
// instruction in its address space (see FindSyscall).
func Begin(tid int, text uint64) (*Injector, error) {
	in := &Injector{TID: tid, Text: text}
	var err error
	if in.Own, err = GetRegs(tid); err != nil {
		return nil, fmt.Errorf("registers of thread %d: %w", tid, err)
	}
	if in.Mask, err = GetMask(tid); err != nil {
		return nil, fmt.Errorf("signal mask of thread %d: %w", tid, err)
	}
	if err := SetMask(tid, AllSignals); err != nil {
		return nil, fmt.Errorf("signal mask of thread %d: %w", tid, err)
	}
	return in, nil
}

// Call executes system call nr with up to six arguments. A failure of the call
// itself is a unix.Errno; whole.ErrDied if the thread was killed meanwhile.
func (in *Injector) Call(nr uint64, args ...uint64) (uint64, error) {
	if err := in.Start(nr, args...); err != nil {
		return 0, err
	}
	if err := in.Enter(); err != nil {
		return 0, err
	}
	return in.Finish()
}

// Fork makes a copy of the process, which is a child of this one, traced and stopped. It gives the number
// that the copy has here: the call itself gives the one that it has for the process.
func (in *Injector) Fork() (pid int, err error) {
	pid, _, err = in.Bear(unix.SYS_CLONE, unix.CLONE_PARENT|unix.CLONE_PTRACE|uint64(unix.SIGCHLD), 0, 0, 0, 0)
	return pid, err
}

// Bear makes a call that makes a traced process. It gives the number that this has here, and the one that it
// has for its maker.
func (in *Injector) Bear(nr uint64, args ...uint64) (pid int, id uint64, err error) {
	if err := SetOptions(in.TID, TraceOptions|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACECLONE); err != nil {
		return 0, 0, in.broken("setting options", err)
	}
	in.born = 0
	id, err = in.Call(nr, args...)
	if e := SetOptions(in.TID, TraceOptions); err == nil && e != nil {
		err = in.broken("setting options", e)
	}
	if err == nil && in.born == 0 {
		err = errors.New("the kernel did not tell the number of the copy")
	}
	return in.born, id, err
}

// ForkAway is Fork for a process that is not a child of this one: the copy is nobody's child, who then is
// whoever takes orphans. Its parent is a process that shares the memory of the one here, does nothing
// else and ends at once, and that this one waits for, as for a child that tells nobody of its end.
func (in *Injector) ForkAway() (pid int, err error) {
	between, id, err := in.Bear(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_PTRACE, 0, 0, 0, 0)
	if err != nil {
		return 0, err
	}
	pid, err = forkBetween(between, in.Text)
	unix.Kill(between, unix.SIGKILL)
	if e := Reap(between, KillLimit); err == nil {
		err = e
	}
	if _, e := in.Call(unix.SYS_WAIT4, id, 0, unix.WALL, 0); err == nil && e != nil {
		err = fmt.Errorf("waiting for the process between: %w", e)
	}
	return pid, err
}

// forkBetween has the process between make the copy.
func forkBetween(between int, text uint64) (int, error) {
	s, err := WaitStop(between, StopLimit)
	if err == nil && s.Exited {
		err = whole.ErrDied
	}
	if err != nil {
		return 0, err
	}
	in, err := Begin(between, text)
	if err != nil {
		return 0, err
	}
	pid, _, err := in.Bear(unix.SYS_CLONE, unix.CLONE_PTRACE|uint64(unix.SIGCHLD), 0, 0, 0, 0)
	return pid, err
}

// Start sends the thread into system call nr. With enter and finish after it, a
// call can be under way in several threads at once.
func (in *Injector) Start(nr uint64, args ...uint64) error {
	r := in.Own
	r.Rip, r.Rax, r.Orig_rax = in.Text, nr, ^uint64(0)
	for i, p := range []*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9} {
		*p = 0
		if i < len(args) {
			*p = args[i]
		}
	}
	if err := SetRegs(in.TID, &r); err != nil {
		return in.broken("setting registers", err)
	}
	return in.resume(0)
}

// Enter waits until the thread is about to execute the call, and lets it.
func (in *Injector) Enter() error {
	if err := in.awaitSyscall(); err != nil {
		return err
	}
	return in.resume(0)
}

// Finish waits for the end of the call and gives its result.
func (in *Injector) Finish() (uint64, error) {
	if err := in.awaitSyscall(); err != nil {
		return 0, err
	}
	r, err := GetRegs(in.TID)
	if err != nil {
		return 0, in.broken("reading the result", err)
	}
	if e := -int64(r.Rax); e > 0 && e < 4096 {
		return 0, unix.Errno(e)
	}
	return r.Rax, nil
}

func (in *Injector) resume(sig int) error {
	if err := resumeToSyscall(in.TID, sig); err != nil {
		return in.broken("resuming", err)
	}
	return nil
}

// awaitSyscall waits until the thread stands at the entry or exit of a system
// call. Of signals only SIGSTOP can come in between, and a stop of the whole
// process; both are passed on, the thread then stops when it is detached.
func (in *Injector) awaitSyscall() error {
	for {
		s, err := WaitStop(in.TID, CallLimit)
		switch {
		case err != nil:
			return err
		case s.Exited:
			return whole.ErrDied
		case s.syscall():
			return nil
		case s.event == unix.PTRACE_EVENT_FORK, s.event == unix.PTRACE_EVENT_CLONE:
			n, err := eventMessage(in.TID)
			if err != nil {
				return in.broken("reading the number of the new process", err)
			}
			in.born = int(n)
		}
		sig := 0
		if s.Delivery() {
			sig = s.Sig
		}
		if err := in.resume(sig); err != nil {
			return err
		}
	}
}

func (in *Injector) broken(what string, err error) error {
	if err == unix.ESRCH {
		return whole.ErrDied
	}
	return fmt.Errorf("system call in thread %d: %s: %w", in.TID, what, err)
}

// End gives the thread its registers and mask back; it stays stopped. The
// registers are those that mend made, so that an interrupted call is repeated.
func (in *Injector) End() error {
	r := Mend(in.Own)
	if err := SetRegs(in.TID, &r); err != nil {
		return in.broken("giving registers back", err)
	}
	if err := SetMask(in.TID, in.Mask); err != nil {
		return in.broken("giving the signal mask back", err)
	}
	return nil
}

// The kernel's results of interrupted system calls that a program never sees.
const (
	errRestartSys     = -512
	errRestartNoIntr  = -513
	errRestartNoHand  = -514
	errRestartBlock   = -516
	syscallInsnLength = 2
)

// Mend does by hand what the kernel would have done when the thread went on: a
// system call that was interrupted is repeated. A call with a time limit whose
// remainder only the kernel knows is taken up by restart_syscall.
func Mend(r Regs) Regs {
	if int64(r.Orig_rax) < 0 {
		return r
	}
	switch int64(r.Rax) {
	case errRestartSys, errRestartNoIntr, errRestartNoHand:
		r.Rax = r.Orig_rax
		r.Rip -= syscallInsnLength
	case errRestartBlock:
		r.Rax = unix.SYS_RESTART_SYSCALL
		r.Rip -= syscallInsnLength
	}
	r.Orig_rax = ^uint64(0)
	return r
}

// InRestartBlock tells whether the thread is in a call whose remainder only the kernel
// knows.
func InRestartBlock(r *Regs) bool {
	return int64(r.Orig_rax) >= 0 && int64(r.Rax) == errRestartBlock
}

// MendImage is Mend for an image, where the kernel knows nothing of the call: nr is its
// number, -1 if that is not known. It is made again with what is known of it: a sleep
// with the rest that the kernel has written, a wait until a point in time until then, a
// poll with all its time. Every other call with a limit fails with EINTR, as after a
// signal.
func MendImage(r Regs, nr int64) Regs {
	if !InRestartBlock(&r) {
		return Mend(r)
	}
	const (
		futexOp         = 0x7f
		futexWaitBitset = 9
	)
	again := true
	switch nr {
	case unix.SYS_POLL:
	case unix.SYS_NANOSLEEP:
		if r.Rsi != 0 {
			r.Rdi = r.Rsi
		}
	case unix.SYS_CLOCK_NANOSLEEP:
		if r.R10 != 0 {
			r.Rdx = r.R10
		}
	case unix.SYS_FUTEX:
		again = r.Rsi&futexOp == futexWaitBitset
	default:
		again = false
	}
	r.Orig_rax = ^uint64(0)
	if !again {
		r.Rax = ^uint64(unix.EINTR) + 1
		return r
	}
	r.Rax = uint64(nr)
	r.Rip -= syscallInsnLength
	return r
}

// FindSyscall looks for a syscall instruction in the executable regions.
func FindSyscall(m *Memory, maps []proc.Mapping) (uint64, error) {
	buf := make([]byte, 64<<10)
	for _, r := range maps {
		if r.Prot&unix.PROT_EXEC == 0 || r.Path == "[vsyscall]" {
			continue
		}
		for at := r.Start; at < r.End; at += uint64(len(buf)) - 1 {
			p := buf[:min(uint64(len(buf)), r.End-at)]
			if err := m.Peek(p, at); err != nil {
				break // beyond the end of the file
			}
			if i := bytes.Index(p, SyscallInsn); i >= 0 {
				return at + uint64(i), nil
			}
			if len(p) < len(buf) {
				break
			}
		}
	}
	return 0, refusal.New("", "its text holds no system call")
}
