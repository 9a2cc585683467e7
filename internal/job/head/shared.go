package head

import (
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A file that several ranks write to is cut once for all of them, by the first of these, before any rank of the job goes:
//
//	agents            head
//	  all restored ---->
//	              <---- Cut     to the agents of the ranks that cut
//	  Cut ------------->        of each of these
//	              <---- Start   to all agents: let yours go

// common is what an incarnation knows of such files.
type common struct {
	files []whole.SharedFile
	waits map[int]bool // ranks that have not cut yet
	held  []func()     // sends that wait for the cuts
	cut   bool
	goes  bool // all ranks are restored
}

// findShared finds the files that the ranks of the snapshot share. It may be called beside the loop.
func (inc *incarnation) findShared() (err error) {
	if inc.wholeFrom() && inc.h.opt.Files == whole.FilesRefuse {
		inc.common.files, err = spec.SharedFiles(inc.from)
	}
	return err
}

// send sends what the machine says. Frames that let ranks go wait until files are cut.
func (inc *incarnation) send(agent int, m oob.Msg) {
	c, out := &inc.common, inc.links[agent].out
	if m.Kind == oob.Start && m.To == oob.AgentAddr(agent) && !c.goes {
		c.goes = true
		inc.beginOutput()
	}
	if m.Kind != oob.Start || m.To != oob.AgentAddr(agent) || len(c.files) == 0 || c.cut {
		out.Send(m)
		return
	}
	if c.waits == nil {
		c.waits = map[int]bool{}
		inc.orderCuts()
	}
	c.held = append(c.held, func() { out.Send(m) })
}

func (inc *incarnation) orderCuts() {
	told := map[int]bool{}
	for _, f := range inc.common.files {
		first := f.Ranks[0]
		inc.common.waits[first] = true
		if l := inc.linkOf(first); !told[l.index] {
			told[l.index] = true
			l.out.Send(oob.Msg{Kind: oob.Cut, From: oob.Head, To: oob.AgentAddr(l.index)})
		}
	}
}

// hasCut records that a rank has cut, and lets all ranks go after the last one.
func (inc *incarnation) hasCut(rank int) {
	c := &inc.common
	delete(c.waits, rank)
	if c.cut || c.waits == nil || len(c.waits) > 0 {
		return
	}
	c.cut = true
	for _, send := range c.held {
		send()
	}
	c.held = nil
}
