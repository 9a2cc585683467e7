//go:build linux

package restore

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// setAttributes gives the process its limits and its threads their priorities. It comes last: the
// restore itself may need more than the program has left itself.
func (r *restore) setAttributes() error {
	for resource, old := range r.state.Limits {
		var lim unix.Rlimit
		if err := unix.Prlimit(r.pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		want := min(old.Soft, lim.Max)
		if resource == unix.RLIMIT_NOFILE && old.Soft == old.Hard {
			want = lim.Max // as every Go program has it that does not say otherwise
		}
		most := lim.Max
		if old.Own {
			most = min(most, old.Hard)
			want = min(want, most)
		}
		if want == lim.Cur && most == lim.Max {
			continue
		}
		lim.Cur, lim.Max = want, most
		if err := unix.Prlimit(r.pid, resource, &lim, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	if err := r.setPriorities(); err != nil {
		return err
	}
	return r.setPolicies()
}

// setPriorities gives every thread its own, as far as it is permitted.
func (r *restore) setPriorities() error {
	for i, tid := range r.tids {
		now, err := proc.Nice(tid)
		if want := r.state.Threads[i].Nice; err == nil && now != want {
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, want)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("priority: %w", err)
		}
	}
	return nil
}
