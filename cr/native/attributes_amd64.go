//go:build linux

package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// describeAttributes notes what a program may have asked of the kernel for the
// process as a whole. A copy has inherited it.
func (c *captured) describeAttributes(pid int) error {
	s := c.state
	for resource := range numLimits {
		var lim unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		s.Limits = append(s.Limits, Limit{lim.Cur, lim.Max})
	}
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	s.NoNewPrivs = status.NoNewPrivs
	return err
}

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
		if want == lim.Cur {
			continue
		}
		lim.Cur = want
		if err := unix.Prlimit(r.pid, resource, &lim, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return r.setPriorities()
}

// priority gives that of a thread.
func priority(tid int) (int, error) {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	return 20 - p, err // so the kernel has it
}

// setPriorities gives every thread its own, as far as it is permitted.
func (r *restore) setPriorities() error {
	for i, tid := range r.tids {
		now, err := priority(tid)
		if want := r.state.Threads[i].Nice; err == nil && now != want {
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, want)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("priority: %w", err)
		}
	}
	return nil
}
