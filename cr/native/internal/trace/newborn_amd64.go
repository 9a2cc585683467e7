package trace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Newborn starts an executable, stopped before its first instruction, lets look
// have a look at it, and ends it. It runs on a Thread.
func Newborn(exe string, look func(pid int) error) error {
	pid, err := syscall.ForkExec(exe, []string{"gorun"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	err = look(pid)
	unix.Kill(pid, unix.SIGKILL)
	Reap(pid, KillLimit)
	return err
}
