package capture

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// captured is a captured process: a stopped child of this one that shares the
// program's memory page by page until the program writes to it. It never runs.
// Without a copy it is the process itself, which stands still.
type captured struct {
	*recorder
	g     *Target
	th    *trace.Thread   // the one that traces it
	pid   int             // 0: the process itself stands still
	own   *trace.Memory   // the copy's
	in    *trace.Injector // into the copy
	st    *stand          // as long as the process stands
	kin   []*captured     // of the first of a family: the others
	pause time.Duration
	bytes uint64

	mu       sync.Mutex
	written  bool
	released bool
}

// each does something with all of the family.
func (c *captured) each(do func(*captured) error) error {
	for _, one := range append([]*captured{c}, c.kin...) {
		if err := do(one); err != nil {
			return one.g.named(err)
		}
	}
	return nil
}

// stay has the process stand instead of a copy.
func (c *captured) stay() (err error) {
	c.bytes, err = anonymousBytes(c.g.PID)
	return err
}

// dropCopy ends a copy before it is of use.
func (c *captured) dropCopy() {
	if c.pid != 0 {
		unix.Kill(c.pid, unix.SIGKILL)
		trace.Reap(c.pid, trace.KillLimit)
		c.pid = 0
	}
}

// prepare closes the descriptors of the new copy: as long as it held the rank's
// sockets, its peers would not see the rank die. It runs on the tracing thread,
// when the program goes on already.
func (c *captured) prepare() error {
	c.st = nil
	return c.blame(c.strip())
}

// blame says of a failure that comes from the copy's death that it does: the process
// lives on, and whole.ErrDied is said of it alone.
func (c *captured) blame(err error) error {
	if err == nil || c.pid == 0 {
		return err
	}
	if s, e := trace.WaitStop(c.pid, 20*time.Millisecond); e == nil && s.Exited {
		return fmt.Errorf("%w: %v", copyDied(s), err)
	}
	if errors.Is(err, whole.ErrDied) || errors.Is(err, unix.ESRCH) { // it is just ending
		return fmt.Errorf("%w: %v", errCopyDied, err)
	}
	return err
}

// strip is what prepare does.
func (c *captured) strip() error {
	s, err := trace.WaitStop(c.pid, trace.StopLimit)
	if err == nil && s.Exited {
		err = whole.ErrDied
	}
	if err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	// If memory runs short, the copy is the one to go.
	os.WriteFile("/proc/"+strconv.Itoa(c.pid)+"/oom_score_adj", []byte("1000"), 0)
	if c.in, err = trace.Begin(c.pid, c.text); err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	if err := c.in.ForgetRseq(); err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	if _, err := c.in.Call(unix.SYS_CLOSE_RANGE, 0, 1<<32-1, 0); err != nil {
		return fmt.Errorf("closing the copy's descriptors: %w", err)
	}
	if c.own, err = trace.OpenMemory(c.pid); err != nil {
		return fmt.Errorf("memory of the copy: %w", err)
	}
	c.bytes, err = anonymousBytes(c.pid)
	return err
}

// errCopyDied says that the copy was killed: by the kernel because memory was
// short, or by a user.
var errCopyDied = errors.New("the copy of the process was killed")

// copyDied tells how the copy ended.
func copyDied(s trace.Stop) error {
	if s.Killed && s.Status == int(unix.SIGKILL) {
		return fmt.Errorf("%w (out of memory?)", errCopyDied)
	}
	return fmt.Errorf("%w: it %v", errCopyDied, s)
}

// anonymousBytes is how much memory of its own a process has.
func anonymousBytes(pid int) (uint64, error) {
	s, err := proc.Parsed(pid, "status", proc.ParseStatus)
	return s.Anon, err
}

// PID is the copy's, 0 if the process itself stands still instead.
func (c *captured) PID() int { return c.pid }

// Bytes is how much memory the image will hold, at most.
func (c *captured) Bytes() uint64 {
	n := c.bytes
	for _, k := range c.kin {
		n += k.bytes
	}
	return n
}

// Pause is for how long the process stood still, from the first thread's stop
// to the last one's going on.
func (c *captured) Pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.st != nil {
		return time.Since(c.st.Since)
	}
	return c.pause
}

// Base is the sequence of the snapshot that the image builds on, 0 if it is full.
func (c *captured) Base() int { return c.base }

// Note tells what the user ought to know of how the image was made, or nothing.
func (c *captured) Note() string { return c.note }

// Release ends the copy, or lets the process go on if there is none. It may be
// called more than once, not while Write runs.
func (c *captured) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return nil
	}
	c.released = true
	if c.st != nil {
		f := c.st.family
		c.th.Do(func() { c.pause = f.release() })
	}
	var errs []error
	for _, one := range append([]*captured{c}, c.kin...) {
		errs = append(errs, one.end())
	}
	return errors.Join(errs...)
}

// end ends one copy.
func (c *captured) end() error {
	c.recorder.close()
	c.own.Close()
	c.st = nil
	if c.pid == 0 || !trace.Unreaped(c.pid) { // the agent may have reaped a copy of a child that has ended
		return nil
	}
	unix.Kill(c.pid, unix.SIGKILL)
	if err := trace.Reap(c.pid, trace.KillLimit); err != nil {
		return fmt.Errorf("ending the copy: %w", err)
	}
	return nil
}
