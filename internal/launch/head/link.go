package head

import (
	"github.com/gorun-mpi/gorun/internal/joblife"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/launcher"
)

// link is the head's side of one agent.
type link struct {
	index int
	agent launcher.Agent
	conn  *oob.Conn
	out   *wire.Queue
	ranks []int // its share
}

// startLink starts agent i of n and greets it. Everything that comes from it is
// posted to the loop of inc.
func (inc *incarnation) startLink(i, n int) (*link, error) {
	h := inc.h
	a, err := h.start(i)
	if err != nil {
		return nil, err
	}
	conn := oob.New(a.Stream())
	l := &link{index: i, agent: a, conn: conn, out: wire.NewQueue(conn)}
	from, to := share(i, n, h.opt.NP)
	for rank := from; rank < to; rank++ {
		l.ranks = append(l.ranks, rank)
	}
	m := wire.Hello("head")
	m.From, m.To = oob.Head, oob.AgentAddr(i)
	l.out.Send(m, oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(i), Data: wire.JSON(inc.custody())})
	go inc.read(l)
	return l, nil
}

// read posts what the agent sends, then its end, and last that nothing of it is left.
func (inc *incarnation) read(l *link) {
	h := inc.h
	first := true
	for {
		m, err := l.conn.Recv()
		if err == nil && first {
			_, err = oob.CheckHello(&m)
		}
		if err != nil {
			h.post(func() { h.feed(joblife.Event{Type: joblife.EvLinkEnded, Life: inc.n, Agent: l.index}) })
			break
		}
		if !first {
			h.post(func() { inc.message(l, &m) })
		}
		first = false
	}
	l.agent.Wait()
	h.post(func() {
		l.conn.Close()
		l.out.Close()
		h.feed(joblife.Event{Type: joblife.EvGone, Life: inc.n, Agent: l.index})
	})
}
