package restore

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// madvGuardInstall is MADV_GUARD_INSTALL, of Linux 6.13.
const madvGuardInstall = 102

// guardCalls makes the guard pages again.
func guardCalls(s *state.State) []call {
	var calls []call
	for _, e := range s.Guards {
		calls = append(calls, call{what: fmt.Sprintf("guard pages %#x to %#x (Linux 6.13 or newer has them)", e.Start, e.End), nr: unix.SYS_MADVISE,
			args: [6]uint64{e.Start, e.End - e.Start, madvGuardInstall}})
	}
	return calls
}

// apartCalls withholds memory from children, as it was.
func apartCalls(s *state.State) []call {
	var calls []call
	for _, a := range s.Apart {
		if a.Withheld {
			calls = append(calls, call{what: "MADV_DONTFORK", nr: unix.SYS_MADVISE, args: [6]uint64{a.Start, a.End - a.Start, unix.MADV_DONTFORK}})
		}
		if a.Wiped {
			calls = append(calls, call{what: "MADV_WIPEONFORK", nr: unix.SYS_MADVISE, args: [6]uint64{a.Start, a.End - a.Start, unix.MADV_WIPEONFORK}})
		}
	}
	return calls
}
