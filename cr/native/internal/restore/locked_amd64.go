package restore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mlockOnFault locks pages as they are touched.
const mlockOnFault = 1

// lockMemory locks the memory again, as far as it is permitted. What was not there
// as a whole is not fetched: it is locked as it is touched.
func (r *restore) lockMemory() error {
	var calls []call
	locked := 0
	for _, l := range r.state.Locked {
		flags := uint64(mlockOnFault)
		if l.Whole {
			flags = 0
		}
		calls = append(calls, call{what: "locking memory", nr: unix.SYS_MLOCK2, args: [6]uint64{l.Start, l.End - l.Start, flags},
			may: true, done: func(uint64) { locked++ }})
	}
	if err := r.puppet.run(r.pid, calls); err != nil {
		return err
	}
	if n := len(calls) - locked; n > 0 {
		r.files.notes = append(r.files.notes, fmt.Sprintf("%d of %d regions are not locked in memory as they were (raise the limit: ulimit -l)", n, len(calls)))
	}
	return nil
}
