package head

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// ticketWithin bounds the wait for a keeper that opens its listener.
const ticketWithin = 5 * time.Second

// ticket tells an agent how it reaches a node directly.
func (inc *incarnation) ticket(l *link, m *oob.Msg) {
	answer := func(w wire.Ticket) {
		l.out.Send(oob.Msg{Kind: oob.Ticket, From: oob.Head, To: oob.AgentAddr(l.index), A: m.A, Data: wire.JSON(w)})
	}
	var to wire.TicketFor
	folder, store, err := "", "", json.Unmarshal(m.Data, &to)
	if err == nil {
		folder, store, err = inc.source.Folder(to, inc.movedFrom())
	}
	if err == nil && inc.h.storage.HasMemory() && store == inc.memoryOf(to) && (l.kept == nil || to.Node == inc.h.storage.OwnName()) {
		answer(inc.ownTicket(l, store))
		return
	}
	if err == nil && l.kept == nil {
		err = errors.New("the job is on one machine")
	}
	if err != nil {
		answer(wire.Ticket{Err: err.Error()})
		return
	}
	go func() { // a keeper may have to be waited for
		ctx, cancel := context.WithTimeoutCause(context.Background(), ticketWithin, fmt.Errorf("its keeper has not answered within %v", ticketWithin))
		defer cancel()
		t, folderName, err := inc.h.fleet.Ticket(ctx, l.kept, l.index, inc.n, to.Node, folder)
		switch {
		case errors.Is(err, fleet.ErrOwn):
			answer(wire.Ticket{Head: true})
		case err != nil:
			answer(wire.Ticket{Err: err.Error()})
		default:
			answer(wire.Ticket{Ticket: wire.JSON(t), Store: cmp.Or(store, folderName)})
		}
	}()
}

// memoryOf is the name at a listener of the memory that an agent wants to read, "" if it wants its own.
func (inc *incarnation) memoryOf(to wire.TicketFor) string {
	if to.Store == "" {
		return ""
	}
	return mem.Kind
}

// ownTicket is the ticket to the head's own node, where memory is.
func (inc *incarnation) ownTicket(l *link, store string) wire.Ticket {
	number := 0
	if l.kept != nil {
		number = l.kept.Node
	}
	t, err := inc.h.storage.Ticket(number, l.index, inc.n)
	if err != nil {
		return wire.Ticket{Err: err.Error()}
	}
	return wire.Ticket{Ticket: wire.JSON(t), Store: store}
}

// files answers an agent that asks for images of other nodes.
func (inc *incarnation) files(l *link, m *oob.Msg) {
	if l.files == nil {
		passes := func(node string) { inc.h.post(func() { l.passes(inc.h, node) }) }
		find := func(name string) remote.Served {
			return inc.source.Served(name, l.agent.Host(), inc.movedFrom(), passes)
		}
		l.files = remote.NewServer(find, func(p []byte) error {
			l.out.Send(oob.Msg{Kind: oob.Files, From: oob.Head, To: oob.AgentAddr(l.index), Data: p})
			return nil
		})
	}
	if err := l.files.Handle(m.Data); err != nil {
		inc.h.say("agent %d: %v", l.index, err)
		l.agent.Kill()
	}
}
