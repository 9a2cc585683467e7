package trace

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ForgetRseq ends the restartable sequences of the thread, if it has any: the
// dynamic loader, which a position independent program is started by, registers
// them. The kernel writes to their memory whenever the thread returns from a
// system call, and kills it when that memory has been given back.
func (in *Injector) ForgetRseq() error {
	const unregister = 1
	var conf struct {
		area                   uint64
		size, signature, flags uint32
		_                      uint32
	}
	err := ptrace(unix.PTRACE_GET_RSEQ_CONFIGURATION, in.TID, unsafe.Sizeof(conf), unsafe.Pointer(&conf))
	if err != nil || conf.area == 0 { // before Linux 5.13 nobody tells
		return nil
	}
	if _, err := in.Call(unix.SYS_RSEQ, conf.area, uint64(conf.size), unregister, uint64(conf.signature)); err != nil {
		return fmt.Errorf("ending restartable sequences: %w", err)
	}
	return nil
}
