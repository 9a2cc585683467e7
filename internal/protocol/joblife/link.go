package joblife

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// link is one agent as the head sees it.
type link struct {
	Agent
	index   int
	silent  int     // pings without any sign of life since
	waited  float64 // the same, counted in pings of an idle machine
	ended   bool    // its stream has
	lost    bool    // it ended before its ranks did
	gone    bool    // nothing of it is left
	bye     bool    // the goodbye was said
	stopped bool    // its ranks are stopped, see pauses
	joins   bool    // it was started for a move, and has no part in the present incarnation
	share   []int   // the ranks that it will have
	busy    bool    // and was told to restore them
	suspect bool    // the ranks were told so
}

func (k *link) name() string {
	return fmt.Sprintf("agent %d on %s (pid %d)", k.index, k.Host, k.PID)
}

func (l *life) link(i int) *link {
	if i < 0 || i >= len(l.links) {
		return nil
	}
	return l.links[i]
}

// linkEnded takes the end of an agent's stream.
func (l *life) linkEnded(k *link) {
	if k.ended {
		return
	}
	k.ended = true
	l.hasStopped(k) // it will not report that any more
	if k.joins {
		l.joinEnded(k)
		l.j.finished()
		return
	}
	if l.moverLost(k) {
		l.j.finished()
		return
	}
	var missing []int
	for _, rank := range k.Ranks {
		if l.given && l.ranks[rank].phase != Exited {
			missing = append(missing, rank)
		}
	}
	if !k.bye && (len(missing) > 0 || !l.given) {
		k.lost = true
		l.act(Action{Type: ActKill, Agent: k.index}) // if only its stream broke
		l.lost(k, missing)
	}
	l.j.finished()
}

// lost ends the life after the loss of an agent.
func (l *life) lost(k *link, missing []int) {
	text := k.name() + " was lost"
	if len(missing) > 0 {
		text += " with " + wireup.Ranks(missing)
	}
	l.causes.set(certain, Verdict{Code: Failed, Rank: -1, Died: true, Text: text})
	for _, rank := range missing {
		l.reach(rank, Exited)
		l.step(ckpt.HeadEvent{Type: ckpt.HvDied, Rank: rank, Err: "its agent was lost"})
	}
	l.health(oob.HealthFailed, missing...)
	l.judge()
}

// gone takes the end of an agent. Another process may still hold the stream open, but it is
// useless.
func (l *life) gone(k *link) {
	if k.gone {
		return
	}
	k.gone = true
	if !k.ended && l == l.j.life && !l.closing {
		l.linkEnded(k)
	}
	if l == l.j.life && !l.closing {
		l.goBack()
	}
}

// dismiss says goodbye to the agents: this process removes what the job has left.
func (l *life) dismiss() {
	for _, k := range l.links {
		if !k.bye && !k.gone {
			k.bye = true
			m := goodbye()
			m.To = oob.AgentAddr(k.index)
			l.send(k, m)
		}
	}
}

// lostAfter is the number of unanswered pings after which an agent is lost, on an idle machine.
const lostAfter = 6

// ping counts pings, not time: while the head is stopped nothing counts. If a hundred other
// processes want each processor, a live agent answers a hundred times later. So a ping counts for a
// hundredth. The stream tells when an agent has died.
func (l *life) ping() {
	for _, k := range l.links {
		if k.ended {
			continue
		}
		if k.waited > lostAfter-0.5 { // below lostAfter, because it is a sum of parts
			l.j.say("%s has not answered for %v", k.name(), millis(int64(k.silent)*l.j.cfg.Heartbeat))
			l.act(Action{Type: ActKill, Agent: k.index})
			continue
		}
		k.silent++
		k.waited += 1 / l.slow
		l.doubt(k)
		l.send(k, oob.Msg{Kind: oob.Ping, To: oob.AgentAddr(k.index)})
	}
}
