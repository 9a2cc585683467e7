package joblife

import (
	"bytes"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// The part of TestLives that moves ranks: agents that are started for it, processes that are captured, restored and
// ended.

// move is a user who wants some ranks elsewhere.
func (w *world) move() {
	w.orders++
	w.asked[w.orders] = true
	var ranks []int
	for rank := range w.np {
		if w.one(2) {
			ranks = append(ranks, rank)
		}
	}
	ev := Event{Type: EvMove, ID: w.orders, Ranks: ranks}
	if w.one(3) {
		ev.Request.Timeout = 5000
	}
	w.feed(ev)
}

// doMove is what a driver does for a move and a checkpoint.
func (w *world) doMove(a *Action) {
	switch a.Type {
	case ActJoin:
		w.moves++
		w.due = append(w.due, w.joined(a))
	case ActRestore:
		for _, x := range w.agents {
			if x.life == a.Life && x.joins && !x.dead {
				x.joins, x.ordered = false, true
				for _, r := range x.ranks {
					r.stands = true
				}
			}
		}
	case ActSwitch:
		w.switches(a)
	case ActMoved:
		if a.Text == "" {
			w.moved++
		}
	case ActCkpt:
		ev := Event{Type: EvCkpt, Life: a.Life}
		switch a.Ckpt.Type {
		case ckpt.HactFolder:
			ev.Ckpt = ckpt.HeadEvent{Type: ckpt.HvFolder, Seq: w.steps + 1, Folder: "f"}
		case ckpt.HactAhead:
			ev.Ckpt = ckpt.HeadEvent{Type: ckpt.HvAhead, Seq: a.Ckpt.Seq}
			if w.one(4) {
				ev.Ckpt.Err = "no space left on device"
			}
		case ckpt.HactCommit:
			ev.Ckpt.Type = ckpt.HvCommitted
		default:
			return
		}
		w.due = append(w.due, ev)
	}
}

// joined starts one or two agents, or fails after the first.
func (w *world) joined(a *Action) Event {
	ev := Event{Type: EvJoined, Life: a.Life, Begun: Begun{Incarnation: switched(a.Life, 2*w.moves-1), Back: switched(a.Life, 2*w.moves)}}
	cut := w.rng.IntN(len(a.Ranks) + 1)
	for _, share := range [][]int{a.Ranks[:cut], a.Ranks[cut:]} {
		if len(share) == 0 {
			continue
		}
		x := &testAgent{life: a.Life, index: a.Agent + len(ev.Begun.Agents), joins: true, unborn: true}
		for _, rank := range share {
			x.ranks = append(x.ranks, &testRank{rank: rank, fresh: true})
		}
		w.agents = append(w.agents, x)
		ev.Begun.Agents = append(ev.Begun.Agents, Agent{Host: fmt.Sprintf("t%d", x.index), Ranks: share})
		if !w.calm && w.one(12) {
			ev.Verdict = &Verdict{Text: "no other agent"}
			break
		}
	}
	return ev
}

// born lets agents act of which the head is told now.
func (w *world) born(ev *Event) {
	for _, a := range w.agents {
		a.unborn = a.unborn && ev.Type != EvJoined
	}
}

// fresh reports whether an agent restores ranks for a move that is not over.
func (a *testAgent) fresh() bool { return len(a.ranks) > 0 && a.ranks[0].fresh && a.ordered }

// current are the processes of a life that have a part in its newest incarnation.
func (w *world) current(life int) map[int]*testRank {
	of := map[int]*testRank{}
	for _, a := range w.agents {
		for _, r := range a.ranks {
			if a.life == life && r.inc == w.inc[life] {
				of[r.rank] = r
			}
		}
	}
	return of
}

// switches begins another incarnation in the processes that have a part in it.
func (w *world) switches(s *Action) {
	if s.Back {
		w.back++
	}
	was, before := w.inc[s.Life], w.before
	w.before, w.inc[s.Life] = was, s.Incarnation
	for _, a := range w.agents {
		for _, r := range a.ranks {
			switch {
			case a.life == s.Life && r.dead && r.stands && s.Back && !r.owed && r.inc == before:
				w.fail("all go back, and the old process of rank %d is known to have ended", r.rank)
			case a.life != s.Life || r.dead:
			case r.fresh && s.Back:
				w.fail("all go back while a new process of rank %d may run", r.rank)
			case r.fresh: // restored
			case r.stands && !s.Back: // to be replaced
			case r.stands || r.inc == was && r.ready:
				r.stands, r.inc, r.phase = false, s.Incarnation, Spawned
			case r.inc == was:
				w.fail("rank %d is to begin another incarnation with its gate open", r.rank)
			}
		}
	}
}

// running opens the gates of an agent's ranks. Then of each rank there is one process that runs.
func (w *world) running(a *testAgent, m *oob.Msg) {
	for _, r := range a.ranks {
		if r.inc != m.Incarnation {
			if !r.dead && !r.stands && m.Incarnation == w.inc[a.life] {
				w.fail("gates open while an old process of rank %d may run", r.rank)
			}
			continue
		}
		if a.killed && r.fresh {
			w.fail("gates open, and rank %d was to be ended", r.rank)
		}
		r.phase, r.ready, r.fresh = Up, false, false
	}
}

// protocol is what a rank, or its agent for it, does with a frame of a checkpoint.
func (a *testAgent) protocol(w *world, m *oob.Msg) {
	for _, r := range a.ranks {
		if m.Kind == oob.Start { // the agent lets the restored go
			if r.dead || r.inc != 0 {
				continue
			}
			r.stands, r.ready, r.inc, r.phase = false, true, m.Incarnation, None
			continue
		}
		if r.rank != int(m.To) || r.dead || r.inc != m.Incarnation {
			continue
		}
		say := func(k oob.Kind) {
			w.due = append(w.due, Event{Type: EvFrame, Life: a.life, Agent: a.index, Msg: oob.Msg{Kind: k, From: m.To, To: oob.Head,
				Incarnation: r.inc, Attempt: m.Attempt, Data: []byte("{}")}})
		}
		switch m.Kind {
		case oob.Close:
			if r.phase == Up || r.phase == Final {
				r.ready = true
				say(oob.Ready)
			}
		case oob.Capture:
			if bytes.Contains(m.Data, []byte(`"ahead":true`)) {
				say(oob.Written)
				continue
			}
			r.stands = true
			say(oob.Captured)
			say(oob.Written)
		case oob.Open, oob.Revert:
			r.stands, r.ready = false, false
		}
	}
}
