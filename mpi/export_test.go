package mpi

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
)

func init() {
	watchEvery = 50 * time.Millisecond
	sayWithin = time.Hour // who waits for that hangs
}

// WatchSeldom keeps the watch from looking until restore is called. What it tells of calls that last for a look takes
// memory, and where a machine is busy many do.
func WatchSeldom() (restore func()) {
	every := watchEvery
	watchEvery = time.Hour
	return func() { watchEvery = every }
}

// Finalizing makes a rank one that waits in Finalize.
func Finalizing(world *Comm) { world.env.finalizing() }

// SetChoice replaces the table of a rank, before its first collective; hosts are
// those of the ranks of the world, if they are others than before.
func SetChoice(world *Comm, params map[string]string, hosts []int) error {
	h := &world.env.chooser
	table, err := h.table.With(params)
	if err == nil {
		h.table = table
	}
	if hosts != nil {
		h.hosts, h.origin = hosts, func() ([]int, error) { return hosts, nil }
	}
	return err
}

// Poison makes a communicator fail, and reports what calls on it get from then on.
func Poison(c *Comm, cause error) error {
	c.poison(cause)
	_, _, err := c.env.eng.Iprobe(engine.AnySource, c.ctx|1, engine.AnyTag)
	return err
}

// GiveUp makes this rank's part of a collective, a long message to dst, end at a deadline. Unlike a collective
// it does not tell the others why. dst calls SeeGivenUp.
func GiveUp(c *Comm, dst int) error {
	eng, to := c.env.eng, c.toWorld(dst)
	ctx, cancel := context.WithCancel(context.Background())
	v := engine.NewView(ctx, eng)
	failed := make(chan error)
	go func() {
		failed <- eng.Send(to, c.ctx|1, 0, &basics[reflect.Uint8], make([]byte, 1<<20), engine.Standard, v)
	}()
	_, err := eng.Recv(to, c.ctx, 0, nil, nil, nil)
	cancel()
	if e := <-failed; !errors.Is(e, ErrDeadline) {
		return errors.Join(err, e, errors.New("the message was not given up"))
	}
	return errors.Join(err, eng.Send(to, c.ctx, 0, nil, nil, engine.Standard, nil))
}

// SeeGivenUp returns when a message has come from src that src has given up.
func SeeGivenUp(c *Comm, src int) error {
	eng, from := c.env.eng, c.toWorld(src)
	_, seen := eng.Probe(from, c.ctx|1, engine.AnyTag, nil)
	told := eng.Send(from, c.ctx, 0, nil, nil, engine.Standard, nil)
	_, given := eng.Recv(from, c.ctx, 0, nil, nil, nil)
	return errors.Join(seen, told, given)
}

// AwaitsReason reports whether this rank, with whom another has given up, waits to hear
// why: anybody might say it.
func AwaitsReason(c *Comm) bool { return strings.Contains(c.env.eng.Blocked(), "source any") }

// MostTeam sets of how many ranks a team is made, and returns what sets it back.
func MostTeam(n int) (undo func()) {
	before := mostTeam
	mostTeam = n
	return func() { mostTeam = before }
}

// InTeam reports whether the ranks of a communicator's node are a team.
func InTeam(c *Comm) bool { return c.coll.team.Team != nil }

// Arrange and Crossings are how a grid is reordered.
var (
	Arrange   = arrange
	Crossings = crossings
)

// EarlyReports is how many reports a rank keeps of communicators that it has not made.
func EarlyReports(c *Comm) int {
	w := &c.env.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.early)
}

// Begun is the context of collectives that go on while the program computes.
func Begun(c *Comm) uint64 { return c.begun }

// Ending is how a rank ends whose program has returned an error.
func Ending(err error) job.Ending { return ending(err) }

// Hear fails collectives of a communicator as a rank that has given one up does. What that rank tells of its other calls is still on
// the way.
func Hear(c *Comm, rank int) {
	c.env.eng.Poison(c.ctx|1, nil, fmt.Errorf("rank %d: %w", rank, ErrDeadline))
}

// HearMade fails collectives of d as a rank does that has found the ranks of origin in different calls, one of which makes a
// communicator. The news of origin are still on the way.
func HearMade(d, origin *Comm, text string) {
	w := &d.env.watch
	w.conclude(d.ctx, origin.ctx, slices.Index(classes, errMade), text)
	d.env.eng.Poison(d.ctx|1, nil, errMade)
}
