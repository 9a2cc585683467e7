package head

import (
	"errors"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
)

var errNoNodes = errors.New("it runs on this machine alone, so no node can join: checkpoint and stop it, then gorun restart -hosts ...")

// join makes nodes join the job, beside the loop. It goes on if the client that has asked for it
// does not wait.
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
	known := h.fleet.Names()
	go func() {
		if err := h.fleet.Join(q.Nodes, more, tell); err != nil {
			last(control.Reply{Error: err.Error()})
			return
		}
		h.post(func() { h.noteJoined(q.Hosts, known) })
		last(control.Reply{Done: &control.DoneReply{}})
	}()
}

// noteJoined keeps the new hosts of a list for the command that goes on with the job.
func (h *head) noteJoined(list string, known []string) {
	for _, word := range strings.Split(list, ",") {
		one, err := hosts.ParseHosts(word)
		if err == nil && !slices.Contains(known, one[0].Name) && !slices.Contains(h.joined, strings.TrimSpace(word)) {
			h.joined = append(h.joined, strings.TrimSpace(word))
		}
	}
}
