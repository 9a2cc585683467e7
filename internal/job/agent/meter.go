package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
	"github.com/gorun-mpi/gorun/internal/system/proc"
)

// The agent measures what its ranks lose while other work runs beside them, see interval.Meter. The
// head says when that work begins and ends:
//
//	Meter (a phase) ->   the ranks are looked at
//	Meter (the next) ->  and again
//	       <- Meter: the rank that has lost most has lost so much
//
// A look costs some ten microseconds for each thread of a rank, so of many ranks only some are looked at.

// meter belongs to the agent; a goroutine of its own owns all fields except the channel.
type meter struct {
	words chan word
	now   oob.Msg // the phase that lasts; no Kind: none was told
	since time.Time
	ranks map[int]*metered // by process
}

// word is one of the head's, with the time at which it came.
type word struct {
	m  oob.Msg
	at time.Time
}

// metered is a rank that is looked at.
type metered struct {
	interval.Meter
	last proc.Times
}

// mostMetered is how many ranks of an agent are looked at.
const mostMetered = 8

// phase takes the head's word that another phase begins.
func (a *agent) phase(m *oob.Msg) {
	if a.meter == nil {
		a.meter = &meter{words: make(chan word, 64)}
		go a.measure()
	}
	select {
	case a.meter.words <- word{*m, time.Now()}:
	default: // the node is so slow that what is measured would mean nothing
		a.head.Send(lostBy(a, m, 0, false))
	}
}

// measure looks at the ranks whenever a phase begins.
func (a *agent) measure() {
	t := a.meter
	for w := range t.words {
		lost, known := t.look(a.toMeter(), interval.Phase(t.now.A), w.at.Sub(t.since), t.now.Kind == oob.Meter)
		if interval.Phase(t.now.A).Costs() {
			a.head.Send(lostBy(a, &w.m, lost, known))
		}
		t.now, t.since = w.m, w.at
	}
}

// lostBy is the answer to a question.
func lostBy(a *agent, q *oob.Msg, lost time.Duration, known bool) oob.Msg {
	m := oob.Msg{Kind: oob.Meter, From: oob.AgentAddr(int(a.index)), To: oob.Head, Incarnation: q.Incarnation, Attempt: q.Attempt, A: uint64(lost)}
	if known {
		m.B = 1
	}
	return m
}

// toMeter are the processes to look at.
func (a *agent) toMeter() (pids []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ranks := slices.Sorted(maps.Keys(a.ranks))
	ranks = slices.DeleteFunc(ranks, func(rank int32) bool { return a.ranks[rank].away || a.pids[a.ranks[rank].pid] == nil })
	for i := range min(len(ranks), mostMetered) {
		pids = append(pids, a.ranks[ranks[i*len(ranks)/min(len(ranks), mostMetered)]].pid)
	}
	return pids
}

// look reads what processes have used. It returns the largest loss of a process since the last
// look.
func (t *meter) look(pids []int, p interval.Phase, span time.Duration, counts bool) (most time.Duration, known bool) {
	now := map[int]*metered{}
	for _, pid := range pids {
		times, ok := proc.ReadTimes(pid)
		if !ok {
			continue // it has ended, or this kernel does not tell
		}
		r := t.ranks[pid]
		if r == nil {
			now[pid] = &metered{last: times}
			continue
		}
		use := times.Since(r.last)
		r.last, now[pid] = times, r
		if !counts {
			continue
		}
		if lost, ok := r.Add(p, interval.Use(use), span); ok {
			most, known = max(most, lost), true
		}
	}
	t.ranks = now
	return most, known
}
