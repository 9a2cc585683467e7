//go:build linux

package capture

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// describeAttributes notes what a program may have asked of the kernel for the
// process as a whole. A copy has inherited it.
func (c *captured) describeAttributes(pid int) error {
	s := c.state
	for resource := range state.NumLimits {
		var lim unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		s.Limits = append(s.Limits, state.Limit{Soft: lim.Cur, Hard: lim.Max})
	}
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	s.NoNewPrivs = status.NoNewPrivs
	return err
}
