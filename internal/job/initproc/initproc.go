// Package initproc makes gorun the rank of a program that does not use the library: a script, or a
// program in C. Such a program never calls Init, so no checkpoint would include it. Gorun is its
// parent, as init is the first process of a container, and takes part in checkpoints. An image
// holds both, with all their descendants:
//
//	gorun -np 2 -cr ./script  -->  agent  -->  gorun __init ./script  -->  ./script  -->  ...
//	                                      |    (rank 0)
//	                                      -->  gorun __init ./script  -->  ./script  -->  ...
//	                                           (rank 1)
//
// A rank whose program has ended well waits in Finalize for the others, where it can be imaged, too.
//
// Children do not inherit the socket of a rank (package oob). So a program that calls Init
// nevertheless would be alone in a world of its own, as without gorun. If it is one of several
// ranks, Init returns an error instead.
package initproc

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/mpi"
)

// Main is the rank; args are the program's path and its arguments. The exit status is the program's; as in shells it is 128 and the
// number of the signal that has killed it.
func Main(args []string) int {
	path := args[0]
	if err := mpi.Init(); err != nil {
		return complain(1, "%v", err)
	}
	// Processes that the program leaves behind stay in the tree.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return complain(1, "%v", err)
	}
	// Signals go to the whole group, and their effect on the program decides.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: environ(path), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return complain(126, "%v; each node needs it at this path", proc.ExplainExec(path, "", err))
	}
	waitreport.Attend(path)
	status, err := reapUntil(pid)
	switch {
	case err != nil:
		return complain(1, "%s: %v", path, err)
	case status.Signaled():
		return complain(128+int(status.Signal()), "%s was killed by %s", path, unix.SignalName(status.Signal()))
	case status.ExitStatus() != 0: // the rank has failed, like any rank with this exit status
		return status.ExitStatus()
	}
	proc.EndAll() // the rest of the job may take long
	if err := mpi.Finalize(); err != nil {
		return complain(1, "%v", err)
	}
	return 0
}

// environ is the program's environment. A rank that is alone may as well be alone in a world of its own.
func environ(path string) []string {
	if mpi.World().Size() == 1 {
		return os.Environ()
	}
	return append(os.Environ(), oob.EnvAttended+"="+path)
}

// reapUntil takes the ends of all children, orphans among them, until that of pid.
func reapUntil(pid int) (status syscall.WaitStatus, err error) {
	for {
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && err != syscall.EINTR {
			return status, err
		}
		if err == nil && ended == pid {
			return status, nil
		}
	}
}

func complain(code int, format string, args ...any) int {
	name := "gorun: "
	if w := mpi.World(); w != nil {
		name += fmt.Sprintf("rank %d: ", w.Rank())
	}
	fmt.Fprintf(os.Stderr, name+format+"\n", args...)
	return code
}
