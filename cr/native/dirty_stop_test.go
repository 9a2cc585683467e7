package native

import (
	"golang.org/x/sys/unix"
)

// stood stops the program, and gives it as a tracker takes it.
func stood(p *dirtyProgram, followed bool) stopped {
	p.stop(followed)
	return stopped{pid: p.pid, pidfd: p.pidfd, syscall: func(nr uint64, args ...uint64) (uint64, error) {
		if nr == unix.SYS_USERFAULTFD {
			return uint64(p.uffd), nil
		}
		return 0, nil
	}}
}
