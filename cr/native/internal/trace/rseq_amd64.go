package trace

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rseq is where a thread and the kernel tell each other of restartable sequences.
type Rseq struct {
	Area                   uint64
	Size, Signature, flags uint32
	_                      uint32
}

// RseqOf asks for that of a stopped thread; Area is 0 if it has none, or if the kernel
// does not tell (before Linux 5.13).
func RseqOf(tid int) Rseq {
	var conf Rseq
	if ptrace(unix.PTRACE_GET_RSEQ_CONFIGURATION, tid, unsafe.Sizeof(conf), unsafe.Pointer(&conf)) != nil {
		return Rseq{}
	}
	return conf
}

// AbortRseq does what the kernel would do with a stopped thread in the middle of a
// restartable sequence: it goes on at the place for those that were interrupted. A system
// call that the thread were made to do in between would have the kernel forget the
// sequence, and the thread go on in it as if nothing had happened.
func (r Rseq) AbortRseq(m *Memory, tid int) error {
	const (
		csAt       = 8 // of the area
		startAt    = 8 // of what that points to
		lengthAt   = 16
		abortAt    = 24
		descriptor = 32
	)
	if r.Area == 0 {
		return nil
	}
	cs, err := m.Word(r.Area + csAt)
	if err != nil || cs == 0 {
		return nil // the kernel would kill the thread for that memory; it is not for us to do
	}
	var p [descriptor]byte
	if m.Peek(p[:], cs) != nil {
		return nil
	}
	regs, err := GetRegs(tid)
	if err != nil {
		return err
	}
	if regs.Rip-binary.LittleEndian.Uint64(p[startAt:]) >= binary.LittleEndian.Uint64(p[lengthAt:]) {
		return nil
	}
	regs.Rip = binary.LittleEndian.Uint64(p[abortAt:])
	return SetRegs(tid, &regs)
}

// ForgetRseq ends the restartable sequences of the thread, if it has any. The kernel
// writes to their memory whenever the thread returns from a system call, and kills it
// when that memory has been given back.
func (in *Injector) ForgetRseq() error {
	const unregister = 1
	conf := RseqOf(in.TID)
	if conf.Area == 0 {
		return nil
	}
	if _, err := in.Call(unix.SYS_RSEQ, conf.Area, uint64(conf.Size), unregister, uint64(conf.Signature)); err != nil {
		return fmt.Errorf("ending restartable sequences: %w", err)
	}
	return nil
}
