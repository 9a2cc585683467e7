package head

import (
	"runtime"
	"time"

	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// connected tells the user which transports carry what.
func (h *head) connected() {
	s := h.job.Transports()
	tell := h.verbose
	if s.Unusual { // it may be as wanted, but costs a lot where it is not
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

// mostNotes is how many lines about transports are told unasked.
const mostNotes = 3

// nodes tells which ranks share a node and a machine, as the ranks are told.
func (inc *incarnation) nodes() []oob.Node {
	machines := map[string]int{}
	var nodes []oob.Node
	for i, l := range inc.links {
		host := l.agent.Host()
		if _, known := machines[host]; !known {
			machines[host] = len(machines)
		}
		number := machines[host]
		if inc.h.opt.Params[spec.ParamNodes] == "agents" {
			number = i
		}
		from, to := share(i, len(inc.links), inc.h.opt.NP)
		nodes = append(nodes, oob.Node{Number: number, Ranks: to - from, Machine: machines[host] + 1})
	}
	return nodes
}

// local is the number of ranks on the machine of an agent.
func (inc *incarnation) local(of *link) (n int) {
	for i, l := range inc.links {
		if l.agent.Host() == of.agent.Host() {
			from, to := share(i, len(inc.links), inc.h.opt.NP)
			n += to - from
		}
	}
	return n
}

// crowded reports whether some machine has more ranks than CPUs. It assumes that each has as many
// CPUs as this one: what matters is that all ranks are told the same.
func (inc *incarnation) crowded() bool {
	for _, l := range inc.links {
		if inc.local(l) > runtime.NumCPU() {
			return true
		}
	}
	return false
}

// allUp tells that all ranks are up.
func (h *head) allUp(life int) {
	h.verbose("job %s: all %d ranks are up after %v", h.id, h.opt.NP, time.Since(h.began).Round(time.Millisecond))
	if err := h.writeJobID(h.id + "\n"); err != nil {
		h.life(life).fail(h.verdictOf(err))
	}
}
