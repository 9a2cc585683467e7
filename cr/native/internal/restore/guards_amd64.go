package restore

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// madvGuardInstall is MADV_GUARD_INSTALL, of Linux 6.13.
const madvGuardInstall = 102

// guardCalls makes the guard pages anew.
func guardCalls(s *state.State) []call {
	var calls []call
	for _, e := range s.Guards {
		calls = append(calls, call{what: fmt.Sprintf("guard pages %#x to %#x (Linux 6.13 or newer has them)", e.Start, e.End), nr: unix.SYS_MADVISE,
			args: [6]uint64{e.Start, e.End - e.Start, madvGuardInstall}})
	}
	return calls
}
