package dirty

import (
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
)

// stood stops the program, and gives it as a tracker takes it.
func stood(p *nativetest.Writer, followed bool) Process {
	p.Stop(followed)
	return Process{PID: p.PID, Pidfd: p.Pidfd, Syscall: func(nr uint64, args ...uint64) (uint64, error) {
		if nr == unix.SYS_USERFAULTFD {
			return uint64(p.Uffd), nil
		}
		return 0, nil
	}}
}
