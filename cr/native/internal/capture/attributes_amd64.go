//go:build linux

package capture

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// describeAttributes records settings of the kernel that a program may have
// made for the whole process. A copy has inherited it.
func (c *captured) describeAttributes(pid int) error {
	s := c.state
	for resource := range state.NumLimits {
		var lim unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &lim); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		var here unix.Rlimit
		if err := unix.Getrlimit(resource, &here); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		s.Limits = append(s.Limits, state.Limit{Soft: lim.Cur, Hard: lim.Max, Own: lim.Max < here.Max})
	}
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	s.NoNewPrivs = status.NoNewPrivs
	return err
}

// askKind asks a copy for what it has inherited and tells only itself: its personality,
// and whether it does without transparent huge pages.
func (c *captured) askKind(in *trace.Injector) error {
	const ask = 1<<32 - 1
	kind, err := in.Call(unix.SYS_PERSONALITY, ask)
	if err != nil {
		return fmt.Errorf("personality: %w", err)
	}
	c.state.Personality = kind
	off, err := in.Call(unix.SYS_PRCTL, unix.PR_GET_THP_DISABLE)
	c.state.NoTHP = err == nil && off != 0
	if errors.Is(err, unix.EINVAL) { // a kernel without them
		err = nil
	}
	return err
}
