package head

import (
	"slices"

	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/launcher"
)

// link is the head's side of one agent.
type link struct {
	index int
	agent launcher.Agent
	conn  *oob.Conn
	out   *wire.Queue
	ranks []int // its share
	known int   // the number by which the machine knows its node: the node at the beginning of the life
	share []int // in a move: the ranks that it is to have

	own     bool           // on the head's own machine
	kept    *fleet.Agent   // the same as agent; nil: the job is on this machine alone
	host    string         // tells its node from others
	node    int            // the same as a number
	machine string         // the same for nodes that share CPUs
	cpus    int            // of the machine; 0: as many as this one
	files   *remote.Server // of images on other nodes; nil: the agent has asked for none
	passed  []string       // the nodes whose images have passed through here
	program string         // where the program is on its node, if that is another
}

// read posts the agent's frames, then the end of its stream, and last that nothing of it is left.
func (inc *incarnation) read(l *link) {
	h := inc.h
	first := true
	for {
		m, err := l.conn.Recv()
		if err == nil && first {
			_, err = oob.CheckHello(&m)
		}
		if err != nil {
			h.post(func() {
				h.printer.Release(l.ranks)
				h.feed(joblife.Event{Type: joblife.EvLinkEnded, Life: inc.n, Agent: l.index})
			})
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
		if l.files != nil {
			l.files.Close()
		}
		h.feed(joblife.Event{Type: joblife.EvGone, Life: inc.n, Agent: l.index})
	})
}

// passes notes that images of another node pass through this process.
func (l *link) passes(h *head, node string) {
	if !slices.Contains(l.passed, node) {
		l.passed = append(l.passed, node)
		h.verbose("agent %d reads images of node %s by way of the head", l.index, node)
	}
}

// leaveOut excludes the node: no later life uses it.
func (l *link) leaveOut(h *head, why error) {
	if l.kept != nil {
		h.fleet.Leave(l.kept.Node, why)
	}
}
