package native

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// The requests of ptrace(2) as functions. All of them are to be called on the
// traceThread that has attached; wait functions may be called anywhere in the
// process, but by one caller for a thread at a time.

// Not in x/sys/unix.
const (
	ptraceGetSigMask   = 0x420a
	ptraceSetSigMask   = 0x420b
	ptracePeekSigShard = 1 // PTRACE_PEEKSIGINFO_SHARED
	ntX86XState        = 0x202
	ntPRStatus         = 1
)

// traceOptions are set on every thread that is attached: system call stops can
// be told from breakpoints, and nothing traced outlives the agent.
const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// stopLimit bounds the wait for a thread to stop. Only a thread in an
// uninterruptible system call (a hung network file system, a child between
// vfork and exec) needs more than a few milliseconds.
const stopLimit = 2 * time.Second

// xstateRoom is room for everything the processor saves of a thread, AMX included.
const xstateRoom = 16 << 10

// regs are a thread's registers as the kernel gives them.
type regs = unix.PtraceRegs

// regBytes gives the registers as they lie in memory.
func regBytes(r *regs) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))...)
}

// regsOf is the reverse of regBytes.
func regsOf(p []byte) (regs, error) {
	var r regs
	if len(p) != int(unsafe.Sizeof(r)) {
		return r, fmt.Errorf("registers of %d bytes, %d expected", len(p), unsafe.Sizeof(r))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)), p)
	return r, nil
}

// ptrace calls the kernel. None of the requests used here waits for anything
// but the tracee's leaving a processor, except seize.
func ptrace(req, tid int, addr uintptr, data unsafe.Pointer) error {
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(req), uintptr(tid), addr, uintptr(data), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// ptraceNum is ptrace with a number where others have a pointer.
func ptraceNum(req, tid int, addr, data uintptr) error {
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(req), uintptr(tid), addr, data, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// seize attaches to a thread without stopping it.
func seize(tid int, options uintptr) error { return ptraceNum(unix.PTRACE_SEIZE, tid, 0, options) }

// interrupt asks a seized thread to stop; waitStop tells when it has.
func interrupt(tid int) error { return ptraceNum(unix.PTRACE_INTERRUPT, tid, 0, 0) }

// resume lets a stopped thread run and gives it sig, if that is not 0.
func resume(tid, sig int) error { return ptraceNum(unix.PTRACE_CONT, tid, 0, uintptr(sig)) }

// resumeToSyscall lets it run to its next entry into or exit from a system call.
func resumeToSyscall(tid, sig int) error {
	return ptraceNum(unix.PTRACE_SYSCALL, tid, 0, uintptr(sig))
}

// resumeStep lets it run one instruction.
func resumeStep(tid, sig int) error { return ptraceNum(unix.PTRACE_SINGLESTEP, tid, 0, uintptr(sig)) }

// detach ends the tracing of a stopped thread, which goes on.
func detach(tid, sig int) error { return ptraceNum(unix.PTRACE_DETACH, tid, 0, uintptr(sig)) }

func setOptions(tid int, options uintptr) error {
	return ptraceNum(unix.PTRACE_SETOPTIONS, tid, 0, options)
}

// eventMessage is the number that belongs to the last event stop: the new
// thread or process for PTRACE_EVENT_CLONE and its like.
func eventMessage(tid int) (uint64, error) {
	var v uint64
	err := ptrace(unix.PTRACE_GETEVENTMSG, tid, 0, unsafe.Pointer(&v))
	return v, err
}

// getRegs reads the registers of a stopped thread, fs_base and gs_base included.
func getRegs(tid int) (regs, error) {
	var r regs
	_, err := regset(unix.PTRACE_GETREGSET, tid, ntPRStatus, unsafe.Pointer(&r), int(unsafe.Sizeof(r)))
	return r, err
}

func setRegs(tid int, r *regs) error {
	_, err := regset(unix.PTRACE_SETREGSET, tid, ntPRStatus, unsafe.Pointer(r), int(unsafe.Sizeof(*r)))
	return err
}

// getXState reads what XSAVE keeps of a stopped thread: floating point and
// vector registers.
func getXState(tid int) ([]byte, error) {
	var buf [xstateRoom]byte
	n, err := regset(unix.PTRACE_GETREGSET, tid, ntX86XState, unsafe.Pointer(&buf), len(buf))
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), buf[:n]...), nil
}

func setXState(tid int, p []byte) error {
	_, err := regset(unix.PTRACE_SETREGSET, tid, ntX86XState, unsafe.Pointer(unsafe.SliceData(p)), len(p))
	return err
}

func regset(req, tid, set int, p unsafe.Pointer, n int) (int, error) {
	iov := unix.Iovec{Base: (*byte)(p), Len: uint64(n)}
	err := ptrace(req, tid, uintptr(set), unsafe.Pointer(&iov))
	return int(iov.Len), err
}

// getMask reads the signal mask of a stopped thread.
func getMask(tid int) (uint64, error) {
	var m uint64
	err := ptrace(ptraceGetSigMask, tid, 8, unsafe.Pointer(&m))
	return m, err
}

func setMask(tid int, mask uint64) error {
	return ptrace(ptraceSetSigMask, tid, 8, unsafe.Pointer(&mask))
}

// pendingSignals lists the signals queued for a stopped thread, or for its
// whole process, without taking them.
func pendingSignals(tid int, shared bool) ([]SigInfo, error) {
	const infoSize, batch = 128, 16
	var all []SigInfo
	var buf [batch * infoSize]byte
	for {
		args := struct {
			off   uint64
			flags uint32
			nr    int32
		}{off: uint64(len(all)), nr: batch}
		if shared {
			args.flags = ptracePeekSigShard
		}
		n, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKSIGINFO, uintptr(tid),
			uintptr(unsafe.Pointer(&args)), uintptr(unsafe.Pointer(&buf)), 0, 0)
		if e != 0 {
			return nil, e
		}
		for i := range int(n) {
			all = append(all, append(SigInfo(nil), buf[i*infoSize:(i+1)*infoSize]...))
		}
		if n < batch {
			return all, nil
		}
	}
}

// stop is why a thread does not run.
type stop struct {
	sig    int // the signal; SIGTRAP|0x80 at a system call
	event  int // PTRACE_EVENT_..., 0 for a signal's delivery and for system calls
	exited bool
	status int  // exit code, or the signal that ended it
	killed bool // by a signal
}

// syscall tells a stop at the entry or exit of a system call.
func (s stop) syscall() bool { return s.event == 0 && s.sig == int(unix.SIGTRAP)|0x80 }

// delivery tells the stop before a signal is given to the thread: the signal is
// lost unless it is passed on when the thread is resumed.
func (s stop) delivery() bool { return s.event == 0 && !s.syscall() && !s.exited }

func (s stop) String() string {
	switch {
	case s.killed:
		return fmt.Sprintf("ended by signal %d", s.status)
	case s.exited:
		return fmt.Sprintf("ended with %d", s.status)
	}
	return fmt.Sprintf("stopped by signal %#x, event %d", s.sig, s.event)
}

// peekStop tells whether the thread has stopped or ended; ok is false if it
// runs. A stop is consumed, an end is not: reapThread does that. The error is
// ECHILD if there is no such thread.
func peekStop(tid int) (s stop, ok bool, err error) {
	code, status, err := waitid(tid, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
	if err != nil || code == 0 {
		return stop{}, false, err
	}
	if code != cldTrapped && code != cldStopped {
		return stop{exited: true, status: status, killed: code != cldExited}, true, nil
	}
	// A kill may have come between the two calls: look again then.
	code, status, err = waitid(tid, unix.WSTOPPED)
	if err != nil || code == 0 {
		return stop{}, false, err
	}
	return stop{sig: status & 0xff, event: status >> 8}, true, nil
}

// si_code of a SIGCHLD.
const (
	cldExited  = 1
	cldTrapped = 4
	cldStopped = 5
)

func waitid(tid, flags int) (code, status int, err error) {
	var info struct {
		signo, errno, code, _ int32
		pid, uid, status      int32
		_                     [100]byte
	}
	_, _, e := unix.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
		uintptr(flags|unix.WNOHANG|unix.WALL), 0, 0)
	if e != 0 {
		return 0, 0, e
	}
	return int(info.code), int(info.status), nil
}

// takeAnyStop finds a thread traced by the calling one whose stop was not seen
// yet, 0 if there is none at the moment.
func takeAnyStop() (tid int, err error) {
	var info struct {
		signo, errno, code, _ int32
		pid                   int32
		_                     [108]byte
	}
	_, _, e := unix.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)),
		unix.WSTOPPED|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(info.pid), nil
}

// waitStop waits until the thread has stopped or ended, at most for limit:
// then the error is ErrBusy. A thread that is gone altogether has ended.
func waitStop(tid int, limit time.Duration) (stop, error) {
	var b backoff
	for {
		s, ok, err := peekStop(tid)
		switch {
		case errors.Is(err, unix.ECHILD):
			return stop{exited: true}, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return stop{}, fmt.Errorf("waiting for thread %d: %w", tid, err)
		case ok:
			return s, nil
		}
		// The leader of a process that was killed is not reported before all
		// other threads were reaped, which may wait for us.
		if b.long() && isZombie(tid) {
			return stop{exited: true}, nil
		}
		if !b.sleep(limit) {
			return stop{}, fmt.Errorf("%w: thread %d still runs after %v", ErrBusy, tid, limit)
		}
	}
}

// isZombie tells whether a thread has ended, be it reported or not.
func isZombie(tid int) bool {
	s, err := proc.Parsed(tid, "stat", proc.ParseStat)
	return err == nil && (s.State == 'Z' || s.State == 'X')
}

// reapThread takes the status of a thread or process that has ended, and waits
// for its end for at most limit.
func reapThread(tid int, limit time.Duration) error {
	var b backoff
	for {
		// The kernel reports stops of what is traced whether asked for or not: they
		// are left to whom they concern.
		code, _, err := waitid(tid, unix.WEXITED|unix.WNOWAIT)
		if err == nil && code != 0 && code != cldTrapped && code != cldStopped {
			_, _, err = waitid(tid, unix.WEXITED)
			if err == nil {
				return nil
			}
		}
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for the end of %d: %w", tid, err)
		}
		if !b.sleep(limit) {
			return fmt.Errorf("waiting for the end of %d: nothing for %v", tid, limit)
		}
	}
}

// backoff waits a little longer each time. The kernel has no wait for a stop
// with a time limit; a wait without one would hang the thread with the tracee.
// Sleeping, unlike yielding, lets the tracer run at once when its time comes,
// even where many processes want the processor.
type backoff struct {
	tries int
	since time.Time
}

// long tells that it has taken more than a moment, now and then.
func (b *backoff) long() bool { return b.tries%16 == 15 }

// sleep reports false once limit is over.
func (b *backoff) sleep(limit time.Duration) bool {
	b.tries++
	if b.tries <= 12 {
		return true
	}
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	waited := now.Sub(b.since)
	if waited > limit {
		return false
	}
	t := unix.NsecToTimespec(int64(min(max(waited/4, 15*time.Microsecond), 2*time.Millisecond)))
	unix.Nanosleep(&t, nil)
	return true
}

// memory is the address space of a process. Reading and writing works whatever
// the protection of the pages is, if the process is stopped or not.
type memory struct{ fd int }

func openMemory(pid int) (*memory, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/mem"
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &memory{fd}, nil
}

// Close may be called again.
func (m *memory) Close() {
	if m != nil && m.fd >= 0 {
		unix.Close(m.fd)
		m.fd = -1
	}
}

// peek fills p from addr.
func (m *memory) peek(p []byte, addr uint64) error {
	for len(p) > 0 {
		n, err := unix.Pread(m.fd, p, int64(addr))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("reading %d bytes at %#x: %w", len(p), addr, err)
		case n == 0:
			return fmt.Errorf("reading %d bytes at %#x: %w", len(p), addr, io.ErrUnexpectedEOF)
		}
		n = max(n, 0)
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

// poke writes p at addr.
func (m *memory) poke(p []byte, addr uint64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(m.fd, p, int64(addr))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("writing %d bytes at %#x: %w", len(p), addr, err)
		case n == 0:
			return fmt.Errorf("writing %d bytes at %#x: %w", len(p), addr, io.ErrShortWrite)
		}
		n = max(n, 0)
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

// word reads 8 bytes.
func (m *memory) word(addr uint64) (uint64, error) {
	var p [8]byte
	err := m.peek(p[:], addr)
	return le.Uint64(p[:]), err
}
