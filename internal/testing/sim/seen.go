package sim

import (
	"fmt"
	"strings"
)

// Seen counts what schedules have come across, to show that they do.
type Seen struct {
	Schedules, Steps                                               int64
	commits, answered, refused                                     int
	saved, restarts, restored, revived, deaths                     int
	closings, halfOpen, tornDown, partial, cut, batched            int
	slots, direct, puts, reads, deadSockets, pendingAtPoint        int
	calls, whole, enough, short, taken, halves, parts, alike       int
	teams, turns, stepsByMessage, over, rings, asks, lines         int
	midSleep, midTurn                                              int
	midFrame, midCall, fellBack, stayed, incremental               int
	again, interrupted, cutLinks, gaveUp                           int
	troubles, expired, lostMachines, thawed, succeeded, leftOut    int
	held, heldAgain, heldOff                                       int
	moved, movers, reverted, movedBack, notMoved, strayed, mishaps int
	left, rejoined, wentAhead                                      int
	copies, givenUp, joined, computed                              int
	finalize, deadline, storage, failedCommit, rankDied, aborts    int
}

// Add adds up.
func (s *Seen) Add(o Seen) {
	s.Schedules += o.Schedules
	s.Steps += o.Steps
	for i, p := range s.counts() {
		*p += *o.counts()[i]
	}
}

func (s *Seen) counts() []*int {
	return []*int{
		&s.commits, &s.answered, &s.refused, &s.saved, &s.restarts, &s.restored, &s.revived, &s.deaths,
		&s.closings, &s.halfOpen, &s.tornDown, &s.partial, &s.cut, &s.batched, &s.slots, &s.direct, &s.puts, &s.reads,
		&s.calls, &s.whole, &s.enough, &s.short, &s.taken, &s.halves, &s.parts, &s.alike,
		&s.teams, &s.turns, &s.stepsByMessage, &s.over, &s.rings, &s.asks, &s.lines, &s.midSleep, &s.midTurn,
		&s.deadSockets, &s.pendingAtPoint, &s.midFrame, &s.midCall, &s.fellBack, &s.stayed, &s.incremental,
		&s.again, &s.interrupted, &s.cutLinks, &s.gaveUp,
		&s.troubles, &s.expired, &s.lostMachines, &s.thawed, &s.succeeded, &s.leftOut,
		&s.held, &s.heldAgain, &s.heldOff,
		&s.moved, &s.movers, &s.reverted, &s.movedBack, &s.notMoved, &s.strayed, &s.mishaps, &s.wentAhead, &s.left, &s.rejoined,
		&s.copies, &s.givenUp, &s.joined, &s.computed,
		&s.finalize, &s.deadline, &s.storage, &s.failedCommit, &s.rankDied, &s.aborts,
	}
}

var seenNames = []string{
	"snapshots committed", "requests answered with a snapshot", "requests refused or failed", "messages saved with an image",
	"restarts after a death", "restarts from a snapshot", "whole processes brought back", "deaths",
	"gates closed", "handshakes in progress at a closing gate", "handshakes torn down", "frames cut by the sender",
	"frames cut at the receiver", "frames held back in batches", "messages left in cells", "direct writes", "direct writes in flight", "direct reads",
	"calls that may block", "frames delivered at one go", "times that the engine had enough", "messages sent by the short cut", "messages taken by the short cut",
	"messages shown by halves", "parts taken", "messages delivered with others alike",
	"teams made", "turns of teams", "steps by messages", "teams that were over", "sleepers rung", "times that room was asked for", "lines that came as frames",
	"gates closed with a caller asleep", "gates closed in the middle of a turn",
	"dead sockets while imaged", "requests pending at a Point", "gates closed in the middle of an arriving frame",
	"gates closed with a goroutine in a call", "ranks that fell back to a native image", "auto requests answered with portable images",
	"images built on others", "lives begun again by the head", "jobs ended by a user", "streams to agents cut", "ranks that gave up after a death",
	"troubles of machines", "leases that ran out", "machines lost", "machines thawed in time", "heads that took another's place", "machines left out, being cut from another",
	"sections in which no checkpoint fell", "sections asked for again by a rank that came back", "requests held off for too long",
	"moves", "ranks that moved", "moves given up", "moves reverted after the switch", "moves refused", "ranks that could not come along", "mishaps of moves", "ranks that moved with an image that had gone ahead", "machines that left in order", "machines that joined again",
	"copies and shards made in memory", "snapshots in memory given up", "images taken from copies", "images computed of what was left of their group",
	"attempts ended by Finalize", "attempts ended by a deadline",
	"attempts ended by storage", "commits failed", "attempts ended by a death", "attempts given up by a rank",
}

func (s *Seen) String() string {
	t := fmt.Sprintf("%d schedules, %d steps", s.Schedules, s.Steps)
	for i, p := range s.counts() {
		t += fmt.Sprintf("\n%9d  %s", *p, seenNames[i])
	}
	return t
}

// closed notes what a gate closed in the middle of.
func (s *Seen) closed(r *rank) {
	s.closings++
	for _, c := range r.mod.arriving {
		if c.body || c.nhead > 0 {
			s.midFrame++
			break
		}
	}
	if r.caller.where == atGate {
		s.midSleep++
		if r.caller.turn {
			s.midTurn++
		}
	}
	for i := range r.app.threads {
		if r.app.threads[i].call != nil {
			s.midCall++
			break
		}
	}
}

// note counts why an attempt failed.
func (s *Seen) note(why string) {
	switch {
	case strings.Contains(why, "held off"):
		s.heldOff++
	case strings.Contains(why, "Finalize"):
		s.finalize++
	case strings.Contains(why, " within "):
		s.deadline++
	case strings.Contains(why, "committed"):
		s.failedCommit++
	case strings.Contains(why, "space left"), strings.Contains(why, "read-only"):
		s.storage++
	case strings.Contains(why, "died"):
		s.rankDied++
	}
}
