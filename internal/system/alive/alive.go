// Package alive tells whether a process that has left its mark somewhere still lives, if it was one of this machine.
package alive

import (
	"os"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Process names a process so that no other is ever taken for it.
type Process struct {
	PID     int    `json:"pid"`
	Start   uint64 `json:"start,omitempty"`   // when it began, in ticks of the machine's life
	Machine string `json:"machine,omitempty"` // where PID and Start mean that: a boot of a kernel, and namespaces there; "": nobody knows
}

// State is what is known of a process.
type State int

const (
	Elsewhere State = iota // on another machine, or in another container: nothing can be said from here
	Lives
	Dead
)

// This names the calling process.
func This() Process {
	p := Process{PID: os.Getpid(), Machine: machine()}
	p.Start, _ = begun(p.PID)
	return p
}

// State looks for the process.
func (p Process) State() State {
	if p.Machine == "" || p.Start == 0 || p.Machine != machine() {
		return Elsewhere
	}
	if start, ok := begun(p.PID); ok && start == p.Start {
		return Lives
	}
	return Dead
}

// machine names this boot of this machine, and the namespaces in which process ids and times are told here.
func machine() string {
	boot, err := procfs.BootID()
	if err != nil {
		return ""
	}
	name := boot
	for _, ns := range []string{"pid", "time"} {
		link, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil && ns == "pid" {
			return ""
		}
		name += " " + link // a kernel may have no namespaces of time
	}
	return name
}

// begun tells when a process began. One that is dead and not reaped counts as none.
func begun(pid int) (start uint64, ok bool) {
	s, ok := procfs.ReadStat(pid)
	if !ok || s.Ended() {
		return 0, false
	}
	return s.Start, true
}
