package native

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// newborn starts an executable, stopped before its first instruction, lets look
// have a look at it, and ends it. It runs on a traceThread.
func newborn(exe string, look func(pid int) error) error {
	pid, err := syscall.ForkExec(exe, []string{"gorun"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	err = look(pid)
	unix.Kill(pid, unix.SIGKILL)
	reapThread(pid, killLimit)
	return err
}
