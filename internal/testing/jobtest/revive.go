package jobtest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// revival is a whole-process restart in place.
type revival struct {
	id     uint64
	rpi    []string
	n      int // ranks that were to open their gates
	born   bool
	before uint64 // the incarnation before
	moves  *Moves // some ranks move; nil: all are restarted
	heard  int    // frames of ranks since the newest incarnation began
}

// Moves says how some ranks move while the others stay.
type Moves struct {
	Ranks []int // that move
	// Failing moves come first: each is given up when the ranks have said so many words of it, before all are
	// up. With the last one all go on where they are.
	Failing []int
	Revert  bool // so does the last one
}

// Migrate moves some ranks, over the transports given, as Revive restarts all.
func (c *Cluster) Migrate(m Moves, rpi ...string) error {
	return c.revive(oob.ModeNative, &revival{rpi: rpi, moves: &m})
}

// Revive restarts all ranks in place, as a process is restarted that was imaged and restored. When a
// native attempt would open the gates, the order comes to go on as another incarnation, over the
// transports given, with what another head and other agents say. The program's goroutines are
// wherever they were. Nothing was copied: the memory of the image is the present one, which has
// stood still.
func (c *Cluster) Revive(rpi ...string) error { return c.ReviveFrom(oob.ModeNative, rpi...) }

// Move tells on which nodes the ranks will be after the next restart.
func (c *Cluster) Move(nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opt.Nodes = nodes
}

// ReviveFrom is Revive, with another mode for the attempt that makes the images: auto, if it falls
// back.
func (c *Cluster) ReviveFrom(mode uint64, rpi ...string) error {
	return c.revive(mode, &revival{rpi: rpi})
}

func (c *Cluster) revive(mode uint64, r *revival) error {
	id, done := c.waiter()
	r.id = id
	c.mu.Lock()
	c.revival = r
	c.mu.Unlock()
	c.feed(joblife.Event{Type: joblife.EvRequest, Request: ckpt.Request{ID: id, Mode: mode}})
	if d := <-done; d.Err != "" {
		return fmt.Errorf("revive: %s", d.Err)
	}
	return nil
}

// agent does what agents do with a message of the head. It reports whether the rank does not get it.
func (c *Cluster) agent(m oob.Msg) (kept bool) {
	var cfg oob.CaptureConfig
	switch m.Kind {
	case oob.Capture:
		if err := json.Unmarshal(m.Data, &cfg); err != nil {
			panic(err)
		}
		if cfg.Mode == oob.ModeNative {
			c.image(m, &cfg)
			return true
		}
	case oob.Open, oob.Commit:
		if r := c.revival; r != nil && !r.born {
			if r.n++; r.n == len(c.Jobs) {
				c.reborn()
			}
			return true
		}
	}
	return false
}

// image is the agents' part in a native attempt; all ranks are Ready.
func (c *Cluster) image(m oob.Msg, cfg *oob.CaptureConfig) {
	j := c.Jobs[m.To]
	if !j.Engine.GateClosed() {
		panic(fmt.Sprintf("rank %d is imaged with its gate open", m.To))
	}
	for peer, other := range c.Jobs {
		if sent, got := j.Engine.Sent()[peer], other.Engine.Received()[m.To]; sent != got {
			panic(fmt.Sprintf("rank %d is imaged when of %d bytes to rank %d %d have arrived", m.To, sent, peer, got))
		}
	}
	answer := oob.Msg{Kind: oob.Captured, From: m.To, To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt, A: 1}
	written := answer
	written.Kind, written.Data = oob.Written, fmt.Appendf(nil, `{"base":%d}`, cfg.Base)
	c.said(answer)
	c.said(written)
}

// reborn begins the next incarnation.
func (c *Cluster) reborn() {
	r := c.revival
	for id := range c.wait {
		if id != r.id {
			c.answer(ckpt.Done{ID: id, Err: "the job was restarted"})
		}
	}
	r.before = c.incarnation
	c.incarnation += 1000
	c.opt.RPI = r.rpi
	r.born, r.heard = true, 0
	c.launch()
}

// fails reports whether a move fails instead of taking the next word of a rank. Then another begins.
func (c *Cluster) fails() bool {
	r := c.revival
	if r == nil || !r.born || r.moves == nil || len(r.moves.Failing) == 0 {
		return false
	}
	if r.heard++; r.heard <= r.moves.Failing[0] {
		return false
	}
	r.moves.Failing = r.moves.Failing[1:]
	c.reborn()
	return true
}

// restored tells the head that all ranks are.
func (c *Cluster) restored() {
	for rank := range c.Jobs {
		c.said(oob.Msg{Kind: oob.Spawn, From: int32(rank), To: oob.Head, A: oob.SpawnWaits, B: uint64(os.Getpid())})
	}
}

// letGo lets all ranks go on.
func (c *Cluster) letGo() {
	for rank := range c.Jobs {
		start := c.start(rank, len(c.Jobs))
		moves := c.revival.moves
		start.Moves = moves != nil
		if moves == nil || slices.Contains(moves.Ranks, rank) && !(moves.Revert && len(moves.Failing) == 0) {
			start.Image, start.Backend = "a native image", "native"
		}
		data, err := json.Marshal(start)
		if err != nil {
			panic(err)
		}
		// What was not read when the image was made comes first. Other orders of the life before are
		// not obeyed.
		old := oob.Msg{Kind: oob.Ask, From: oob.Head, To: int32(rank), Incarnation: c.revival.before, Attempt: 1}
		stale := old
		stale.Kind = oob.Revert
		for _, m := range []oob.Msg{old, {Kind: oob.Start, From: oob.Head, To: int32(rank), Incarnation: start.Incarnation, Data: data}, stale} {
			c.up[rank].put(m)
		}
	}
}
