package launcher

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// link is the head's side of one agent.
type link struct {
	index  int
	agent  Agent
	out    *queue
	ranks  []int // its ranks
	pids   []int // of the ranks, as far as they have been started
	silent int   // pings without any sign of life since
	eof    bool  // its stream has ended
	gone   bool  // the process has ended and was reaped, its orphans too
	lost   bool  // it ended before its ranks did
	bye    bool  // the goodbye was said
}

// startLink starts agent i of n and greets it. Everything that comes from it is
// posted to the loop of inc.
func (inc *incarnation) startLink(i, n int) (*link, error) {
	h := inc.h
	h.orphans.Lock()
	a, err := h.opt.Manager.Start(i, n)
	if err == nil {
		h.own[a.PID()] = true
	}
	h.orphans.Unlock()
	if err != nil {
		return nil, err
	}
	l := &link{index: i, agent: a, out: newQueue(a.Conn())}
	m := hello("head")
	m.From, m.To = oob.Head, oob.AgentAddr(i)
	l.out.send(m, oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(i), Data: mustJSON(inc.custody())})
	go inc.read(l)
	return l, nil
}

// read posts what the agent sends, then its end.
func (inc *incarnation) read(l *link) {
	first := true
	for {
		m, err := l.agent.Conn().Recv()
		if err == nil && first {
			_, err = oob.CheckHello(&m)
		}
		if err != nil {
			inc.h.post(func() { inc.linkEnded(l, err) })
			break
		}
		if !first {
			inc.h.post(func() { inc.message(l, &m) })
		}
		first = false
	}
	l.agent.Wait()
	var orphans []int
	done := make(chan struct{})
	inc.h.post(func() { orphans = append(orphans, l.pids...); close(done) })
	select {
	case <-done:
	case <-inc.h.done:
	}
	if l.agent.Local() {
		inc.h.buryOrphans(l.agent.PID(), orphans)
	}
	inc.h.post(func() { inc.linkGone(l) })
}

// buryOrphans ends the groups of a dead agent's ranks, which have come to this
// process, and reaps whatever child is nobody's.
func (h *head) buryOrphans(agent int, ranks []int) {
	h.orphans.Lock()
	defer h.orphans.Unlock()
	delete(h.own, agent)
	for _, pid := range ranks {
		if st, ok := readStat(pid); ok && st.ppid == os.Getpid() {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
	for {
		var mine []int
		for _, pid := range children() {
			if !h.own[pid] {
				mine = append(mine, pid)
			}
		}
		if len(mine) == 0 {
			return
		}
		for _, pid := range mine {
			syscall.Kill(pid, syscall.SIGKILL)
			wait4(pid)
		}
	}
}

// linkEnded takes the end of an agent's stream.
func (inc *incarnation) linkEnded(l *link, err error) {
	l.eof = true
	var missing []int
	for _, rank := range l.ranks {
		if inc.ranks[rank].phase != phaseExited {
			missing = append(missing, rank)
		}
	}
	if !l.bye && (len(missing) > 0 || len(l.ranks) == 0) {
		l.lost = true
		l.agent.Kill() // if only its stream broke
		inc.lost(l, missing)
	}
	inc.finished()
}

// lost ends the incarnation after the loss of an agent.
func (inc *incarnation) lost(l *link, missing []int) {
	text := fmt.Sprintf("agent %d on %s (pid %d) was lost", l.index, l.agent.Host(), l.agent.PID())
	if len(missing) > 0 {
		text += " with " + rankList(missing)
	}
	inc.causes.set(certain, verdict{code: ExitFailed, rank: -1, died: true, text: text})
	for _, rank := range missing {
		inc.reach(rank, phaseExited)
		inc.step(ckpt.HeadEvent{Type: ckpt.HvDied, Rank: rank, Err: "its agent was lost"})
	}
	inc.judge()
}

func (inc *incarnation) linkGone(l *link) {
	l.gone = true
	l.agent.Conn().Close()
	l.out.close()
	inc.finished()
}

// leave says goodbye to one agent: this process removes what is to be removed.
func (inc *incarnation) leave(l *link) {
	if !l.bye {
		l.bye = true
		l.out.send(oob.Msg{Kind: oob.KillAll, From: oob.Head, To: oob.AgentAddr(l.index), B: goodbye})
	}
}

func (inc *incarnation) dismiss() {
	for _, l := range inc.links {
		inc.leave(l)
	}
}

// present is the number of agents that have not been reaped.
func (inc *incarnation) present() int {
	n := 0
	for _, l := range inc.links {
		if !l.gone {
			n++
		}
	}
	return n
}

// heartbeat pings the agents; the ticker is stopped with the incarnation.
func (inc *incarnation) heartbeat(t *time.Ticker) {
	for {
		select {
		case <-t.C:
			inc.h.post(inc.ping)
		case <-inc.h.done:
			return
		}
	}
}

// ping counts pings, not time: while this process is stopped nothing counts.
func (inc *incarnation) ping() {
	for _, l := range inc.links {
		if l.eof {
			continue
		}
		if l.silent >= lostAfter {
			inc.h.say("agent %d on %s (pid %d) has not answered for %v", l.index, l.agent.Host(), l.agent.PID(), lostAfter*inc.h.opt.Heartbeat)
			l.agent.Kill()
			continue
		}
		l.silent++
		l.out.send(oob.Msg{Kind: oob.Ping, From: oob.Head, To: oob.AgentAddr(l.index)})
	}
}
