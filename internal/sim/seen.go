package sim

import (
	"fmt"
	"strings"
)

// Seen counts what schedules have come across, to show that they do.
type Seen struct {
	Schedules, Steps                                            int64
	commits, answered, refused                                  int
	saved, restarts, restored, revived, deaths                  int
	closings, halfOpen, tornDown, partial, cut, batched         int
	slots, direct, puts, reads, deadSockets, pendingAtPoint     int
	midFrame, midCall, fellBack, stayed, incremental            int
	finalize, deadline, storage, failedCommit, rankDied, aborts int
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
		&s.deadSockets, &s.pendingAtPoint, &s.midFrame, &s.midCall, &s.fellBack, &s.stayed, &s.incremental,
		&s.finalize, &s.deadline, &s.storage, &s.failedCommit, &s.rankDied, &s.aborts,
	}
}

var seenNames = []string{
	"snapshots committed", "requests answered with a snapshot", "requests refused or failed", "messages saved with an image",
	"restarts after a death", "restarts from a snapshot", "whole processes brought back", "deaths",
	"gates closed", "handshakes in progress at a closing gate", "handshakes torn down", "frames cut by the sender",
	"frames cut at the receiver", "frames held back in batches", "frames in shared slots", "direct writes", "direct writes in flight", "direct reads",
	"dead sockets while imaged", "requests pending at a Point", "gates closed in the middle of an arriving frame",
	"gates closed with a goroutine in a call", "ranks that fell back to a native image", "auto requests answered with portable images",
	"images built on others", "attempts ended by Finalize", "attempts ended by a deadline",
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
