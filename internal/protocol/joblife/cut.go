package joblife

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Two nodes may be cut off from one another while the head sees both. Only their ranks notice,
// because their data is not acknowledged. They report that once a second (oob.Suspect), with its
// duration, and report its end once.
//
//	rank 1            head                             after
//	  nothing comes back from rank 3                     0 s
//	  Suspect ------>   tells the user                  10 s   tcp.suspect
//	  Suspect ------>   ...
//	  Suspect ------>   LeaveOut, the life ends         15 s   Config.CutMillis
//
// An agent that does not answer the head is not judged here: it is lost, or comes back. A rank that
// is only stopped is not suspected, because its machine acknowledges data.

// cuts holds the ranks' reports about the paths between nodes.
type cuts struct {
	complaints map[complaint]bool
	told       map[cutPair]bool // the user knows
}

type complaint struct{ rank, peer int }

// cutPair is two agents, the lower first.
type cutPair struct{ a, b int }

// cutMillis is Config.CutMillis by default.
const cutMillis = 15_000

// suspects takes a rank's report that nothing has come back from a peer for some time, or that
// something has.
func (l *life) suspects(rank int, m *oob.Msg) {
	if m.A >= uint64(len(l.ranks)) {
		return
	}
	c := complaint{rank, int(m.A)}
	a, b := l.ranks[rank].link, l.ranks[c.peer].link
	if a == nil || b == nil || a == b {
		return
	}
	p := cutPair{min(a.index, b.index), max(a.index, b.index)}
	if m.B == 0 {
		l.mended(c, p)
		return
	}
	if l.cuts.complaints == nil {
		l.cuts = cuts{complaints: map[complaint]bool{}, told: map[cutPair]bool{}}
	}
	l.cuts.complaints[c] = true
	silent := int64(min(m.B, 1<<40))
	switch {
	case l.ending != nil || a.mute() || b.mute():
	case silent >= l.j.cfg.CutMillis:
		l.cut(c, silent)
	case !l.cuts.told[p]:
		l.cuts.told[p] = true
		l.j.say("nothing has come back to rank %d on %s from %s, the node of rank %d, for %v; both nodes answer here",
			rank, a.Host, b.Host, c.peer, seconds(silent))
	}
}

// mended takes back a complaint.
func (l *life) mended(c complaint, p cutPair) {
	delete(l.cuts.complaints, c)
	if l.cuts.told[p] && !slices.Contains(l.cutPairs(), p) {
		delete(l.cuts.told, p)
		l.j.say("%s and %s reach one another again", l.links[p.a].Host, l.links[p.b].Host)
	}
}

// cutPairs are the pairs of agents that answer the head and about which ranks complain.
func (l *life) cutPairs() (all []cutPair) {
	found := map[cutPair]bool{}
	for c := range l.cuts.complaints {
		a, b := l.ranks[c.rank].link, l.ranks[c.peer].link
		if !a.mute() && !b.mute() {
			found[cutPair{min(a.index, b.index), max(a.index, b.index)}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(x, y cutPair) int { return slices.Compare([]int{x.a, x.b}, []int{y.a, y.b}) })
}

// cut ends the life because of a complaint that has lasted. It leaves out few nodes, chosen so that
// no two of the others are known to be cut off from one another.
func (l *life) cut(c complaint, silent int64) {
	a, b := l.ranks[c.rank].link, l.ranks[c.peer].link
	text := fmt.Sprintf("the network between %s and %s is cut: nothing has come back to rank %d from the node of rank %d for %v, while both nodes answer here",
		a.Host, b.Host, c.rank, c.peer, seconds(silent))
	var names []string
	for pairs := l.cutPairs(); len(pairs) > 0; {
		out := l.worst(pairs)
		var from []string
		pairs = slices.DeleteFunc(pairs, func(p cutPair) bool {
			if p.a == out || p.b == out {
				from = append(from, l.links[p.a+p.b-out].Host)
				return true
			}
			return false
		})
		l.act(Action{Type: ActLeaveOut, Agent: out, Text: "it is cut from " + strings.Join(from, ", ")})
		names = append(names, l.links[out].Host)
	}
	if l.j.RestartsLeft() {
		text += "; without " + strings.Join(names, ", ") + " from now on"
	}
	l.causes.set(certain, Verdict{Code: Failed, Rank: -1, Died: true, Text: text})
	l.judge()
}

// worst is the agent to be left out first: the one that is cut off from the most others, of these
// the one with the highest number. The agent on the head's own node is the last choice: leaving it
// out would not end the head.
func (l *life) worst(pairs []cutPair) int {
	from := map[int]int{}
	for _, p := range pairs {
		from[p.a]++
		from[p.b]++
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(from)), func(x, y int) int {
		if l.links[x].Own != l.links[y].Own {
			if l.links[x].Own {
				return -1
			}
			return 1
		}
		if from[x] != from[y] {
			return from[x] - from[y]
		}
		return x - y
	})
}

// mute reports whether an agent has ended or owes the head more than one answer.
func (k *link) mute() bool { return k.ended || k.silent > 1 }

func seconds(n int64) time.Duration { return millis(n).Round(time.Second) }
