package head

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// connected tells the user which transports carry what.
func (h *head) connected() {
	s := h.job.Transports()
	tell := h.verbose
	// This may be intended, but is costly where it is not. Ranks that attend programs are left out:
	// they send each other nothing.
	if _, _, attended := program.Attended(h.opt.Program, h.opt.Args); s.Unusual && !attended {
		tell = h.say
	}
	for i, note := range s.Notes {
		if i == mostNotes && !h.opt.Verbose {
			tell("... and %d more; gorun status lists them", len(s.Notes)-i)
			break
		}
		tell("transport %s", note)
	}
	if len(s.Uses) > 0 {
		h.verbose("transports: %v", s)
	}
}

// mostNotes is how many lines about transports are printed unasked.
const mostNotes = 3

// number gives each agent the number of its node.
func (inc *incarnation) number() {
	numbers := map[string]int{}
	for i, l := range inc.links {
		if len(l.ranks) == 0 {
			continue
		}
		host := l.host
		if inc.h.opt.Params[spec.ParamNodes] == "agents" {
			host = fmt.Sprint(i)
		}
		l.node = number(numbers, host)
	}
}

// nodes returns the node and the machine of each rank, in the order of ranks, as the ranks get it.
func (inc *incarnation) nodes() []oob.Node {
	inc.number()
	machines := map[string]int{}
	of := make([]oob.Node, inc.h.opt.NP)
	for _, l := range inc.links {
		for _, rank := range l.ranks {
			of[rank] = oob.Node{Number: l.node, Ranks: 1, Machine: number(machines, l.machine) + 1}
		}
	}
	var nodes []oob.Node
	for _, n := range of {
		if last := len(nodes) - 1; last >= 0 && nodes[last].Number == n.Number && nodes[last].Machine == n.Machine {
			nodes[last].Ranks++
		} else {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// number numbers names from 0 in the order of their first use.
func number(known map[string]int, name string) int {
	if _, ok := known[name]; !ok {
		known[name] = len(known)
	}
	return known[name]
}

// wide reports whether the ranks are on several nodes, which reach one another over networks. Nodes of one machine,
// such as containers, count.
func (inc *incarnation) wide() bool {
	first := slices.IndexFunc(inc.links, func(l *link) bool { return len(l.ranks) > 0 })
	return slices.ContainsFunc(inc.links, func(l *link) bool { return len(l.ranks) > 0 && l.host != inc.links[first].host })
}

// local is the number of ranks on the machine of an agent.
func (inc *incarnation) local(of *link) (n int) {
	for _, l := range inc.links {
		if l.machine == of.machine {
			n += len(l.ranks)
		}
	}
	return n
}

// crowded reports whether some machine has more ranks than CPUs.
func (inc *incarnation) crowded() bool {
	for _, l := range inc.links {
		if inc.local(l) > cmp.Or(l.cpus, runtime.NumCPU()) {
			return true
		}
	}
	return false
}

// allUp tells that all ranks are up.
func (h *head) allUp(life int) {
	h.verbose("job %s: all %d ranks are up after %v", h.id, h.opt.NP, time.Since(h.began).Round(time.Millisecond))
	if err := h.tellUp(); err != nil {
		h.life(life).fail(h.verdictOf(err))
	}
	if life == 1 && h.opt.From != nil {
		h.storage.Sweep()
	}
}
