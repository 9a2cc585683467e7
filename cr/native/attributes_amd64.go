//go:build linux

package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// describeAttributes notes what a program may have asked of the kernel for the
// process as a whole. A copy has inherited it.
func (c *Copy) describeAttributes(pid int) error {
	s := c.state
	for resource := range numLimits {
		var lim unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		s.Limits = append(s.Limits, Limit{lim.Cur, lim.Max})
	}
	stat, err := parsedProc(pid, "stat", parseStat)
	if err != nil {
		return err
	}
	s.Nice = stat.nice
	status, err := parsedProc(pid, "status", parseStatus)
	s.NoNewPrivs = status.noNewPrivs
	return err
}

// setAttributes gives the process its limits and its priority. It comes last: the
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
	stat, err := parsedProc(r.pid, "stat", parseStat)
	if err != nil || r.state.Nice <= stat.nice {
		return err // without privilege nobody gets more than he has
	}
	for _, tid := range r.tids {
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, r.state.Nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("priority: %w", err)
		}
	}
	return nil
}
