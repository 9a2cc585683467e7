package head

import (
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// leases reports whether ranks on the head's own node have a lease, too: another head may take this one's place while it
// stands still.
func (h *head) leases() bool { return h.fleet != nil && h.storage.Keeps() }

// grantOwn renews the leases of the present life's agents on this node. It runs in the loop: a head that stands still
// grants nothing.
func (h *head) grantOwn() {
	if h.inc != nil {
		for _, l := range h.inc.links {
			h.grant(l)
		}
	}
}

func (h *head) grant(l *link) {
	if l.own && h.leases() {
		l.out.Send(oob.Msg{Kind: oob.Grant, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(lease.Now() + h.opt.Terms().L.Milliseconds())})
	}
}
