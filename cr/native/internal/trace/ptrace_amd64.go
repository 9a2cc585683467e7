package trace

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of ptrace(2) as functions. All of them are to be called on the
// Thread that has attached; wait functions may be called anywhere in the
// process, but by one caller for a thread at a time.

// Not in x/sys/unix.
const (
	ptraceGetSigMask   = 0x420a
	ptraceSetSigMask   = 0x420b
	ptracePeekSigShard = 1 // PTRACE_PEEKSIGINFO_SHARED
	ntX86XState        = 0x202
	ntPRStatus         = 1
)

// TraceOptions are set on every thread that is attached: system call stops can
// be told from breakpoints, and nothing traced outlives the agent.
const TraceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// xstateRoom is room for everything the processor saves of a thread, AMX included.
const xstateRoom = 16 << 10

// Regs are a thread's registers as the kernel gives them.
type Regs = unix.PtraceRegs

// RegBytes gives the registers as they lie in memory.
func RegBytes(r *Regs) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))...)
}

// RegsOf is the reverse of RegBytes.
func RegsOf(p []byte) (Regs, error) {
	var r Regs
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

// Seize attaches to a thread without stopping it.
func Seize(tid int, options uintptr) error { return ptraceNum(unix.PTRACE_SEIZE, tid, 0, options) }

// Interrupt asks a seized thread to stop; WaitStop tells when it has.
func Interrupt(tid int) error { return ptraceNum(unix.PTRACE_INTERRUPT, tid, 0, 0) }

// Resume lets a stopped thread run and gives it sig, if that is not 0.
func Resume(tid, sig int) error { return ptraceNum(unix.PTRACE_CONT, tid, 0, uintptr(sig)) }

// resumeToSyscall lets it run to its next entry into or exit from a system call.
func resumeToSyscall(tid, sig int) error {
	return ptraceNum(unix.PTRACE_SYSCALL, tid, 0, uintptr(sig))
}

// resumeStep lets it run one instruction.
func resumeStep(tid, sig int) error { return ptraceNum(unix.PTRACE_SINGLESTEP, tid, 0, uintptr(sig)) }

// Detach ends the tracing of a stopped thread, which goes on.
func Detach(tid, sig int) error { return ptraceNum(unix.PTRACE_DETACH, tid, 0, uintptr(sig)) }

// SetOptions sets those of a thread that is traced.
func SetOptions(tid int, options uintptr) error {
	return ptraceNum(unix.PTRACE_SETOPTIONS, tid, 0, options)
}

// eventMessage is the number that belongs to the last event stop: the new
// thread or process for PTRACE_EVENT_CLONE and its like.
func eventMessage(tid int) (uint64, error) {
	var v uint64
	err := ptrace(unix.PTRACE_GETEVENTMSG, tid, 0, unsafe.Pointer(&v))
	return v, err
}

// GetRegs reads the registers of a stopped thread, fs_base and gs_base included.
func GetRegs(tid int) (Regs, error) {
	var r Regs
	_, err := regset(unix.PTRACE_GETREGSET, tid, ntPRStatus, unsafe.Pointer(&r), int(unsafe.Sizeof(r)))
	return r, err
}

// SetRegs is the reverse of GetRegs.
func SetRegs(tid int, r *Regs) error {
	_, err := regset(unix.PTRACE_SETREGSET, tid, ntPRStatus, unsafe.Pointer(r), int(unsafe.Sizeof(*r)))
	return err
}

// GetXState reads what XSAVE keeps of a stopped thread: floating point and
// vector registers.
func GetXState(tid int) ([]byte, error) {
	var buf [xstateRoom]byte
	n, err := regset(unix.PTRACE_GETREGSET, tid, ntX86XState, unsafe.Pointer(&buf), len(buf))
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), buf[:n]...), nil
}

// SetXState is the reverse of GetXState.
func SetXState(tid int, p []byte) error {
	_, err := regset(unix.PTRACE_SETREGSET, tid, ntX86XState, unsafe.Pointer(unsafe.SliceData(p)), len(p))
	return err
}

func regset(req, tid, set int, p unsafe.Pointer, n int) (int, error) {
	iov := unix.Iovec{Base: (*byte)(p), Len: uint64(n)}
	err := ptrace(req, tid, uintptr(set), unsafe.Pointer(&iov))
	return int(iov.Len), err
}

// GetMask reads the signal mask of a stopped thread.
func GetMask(tid int) (uint64, error) {
	var m uint64
	err := ptrace(ptraceGetSigMask, tid, 8, unsafe.Pointer(&m))
	return m, err
}

// SetMask is the reverse of GetMask.
func SetMask(tid int, mask uint64) error {
	return ptrace(ptraceSetSigMask, tid, 8, unsafe.Pointer(&mask))
}

// Pending lists the signals queued for a stopped thread, or for its
// whole process, without taking them.
func Pending(tid int, shared bool) ([][]byte, error) {
	const infoSize, batch = 128, 16
	var all [][]byte
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
			all = append(all, append([]byte(nil), buf[i*infoSize:(i+1)*infoSize]...))
		}
		if n < batch {
			return all, nil
		}
	}
}
