package head

import (
	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// bindRule is how an agent binds its ranks, nil if it does not. Agents that share a machine share out
// its cores.
func (inc *incarnation) bindRule(of *link) *bind.Rule {
	o := &inc.h.opt
	if o.Bind == bind.None {
		return nil
	}
	r := &bind.Rule{Unit: o.Bind, BySocket: o.Map == hosts.BySocket}
	for _, l := range inc.links[:of.index] {
		if l.agent.Host() == of.agent.Host() {
			r.Before += len(l.ranks)
		}
	}
	return r
}

// boundTo notes to which CPUs an agent has bound a rank.
func (inc *incarnation) boundTo(m *oob.Msg) {
	cpus := string(m.Data)
	inc.bound[int(m.From)] = cpus
	inc.h.verbose("rank %d is bound to CPUs %s", m.From, cpus)
}
