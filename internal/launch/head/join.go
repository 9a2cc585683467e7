package head

import (
	"errors"

	"github.com/gorun-mpi/gorun/internal/launch/control"
	"github.com/gorun-mpi/gorun/internal/launch/hosts"
)

var errNoNodes = errors.New("it runs on this machine alone, so no node can join: checkpoint and stop it, then gorun restart -hosts ...")

// join has nodes join the job, beside all else. It goes on if whoever has asked for it does not wait.
func (h *head) join(q *control.Request, tell func(string), last func(control.Reply)) {
	var more []hosts.Node
	err := errNoNodes
	if h.fleet != nil {
		err = nil
	}
	if err == nil && q.Hosts != "" {
		more, err = hosts.ParseHosts(q.Hosts)
	}
	if err != nil {
		last(control.Reply{Error: err.Error()})
		return
	}
	go func() {
		if err := h.fleet.Join(q.Nodes, more, tell); err != nil {
			last(control.Reply{Error: err.Error()})
			return
		}
		last(control.Reply{Done: &control.DoneReply{}})
	}()
}
