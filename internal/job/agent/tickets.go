package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Connections from this agent to other nodes, see package listener. The head hands out the tickets.

// Limits of time. A node that is not reached in time is read by way of the head.
const (
	ticketWithin = 10 * time.Second // the head's answer, which may wait for a keeper
	callWithin   = 4 * time.Second  // two tries of the kernel's
)

// tickets are what this agent has asked for and opened.
type tickets struct {
	head  *wire.Queue
	index int
	files readings
	say   func(string)

	mu    sync.Mutex
	next  uint64
	asked map[uint64]chan wire.Ticket
}

func newTickets(head *wire.Queue, index int) *tickets {
	say := func(text string) { fmt.Fprintln(os.Stderr, "gorun agent:", text) }
	return &tickets{head: head, index: index, say: say, asked: map[uint64]chan wire.Ticket{}, files: readings{open: map[wire.TicketFor]*reading{}}}
}

// errNearest says that the head is the nearest way to a node.
var errNearest = errors.New("the node is the head's own")

// ticket asks the head how a node is reached. store is the name of the store there.
func (w *tickets) ticket(ctx context.Context, to wire.TicketFor) (t rendezvous.Ticket, store string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ticketWithin, fmt.Errorf("the head has not told the way within %v", ticketWithin))
	defer cancel()
	answer := make(chan wire.Ticket, 1)
	w.mu.Lock()
	w.next++
	id := w.next
	w.asked[id] = answer
	w.mu.Unlock()
	w.head.Send(oob.Msg{Kind: oob.Ticket, From: oob.AgentAddr(w.index), To: oob.Head, A: id, Data: wire.JSON(to)})
	select {
	case a := <-answer:
		switch {
		case a.Head:
			return t, "", errNearest
		case a.Err != "":
			return t, "", errors.New(a.Err)
		}
		return t, a.Store, json.Unmarshal(a.Ticket, &t)
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.asked, id)
		w.mu.Unlock()
		return t, "", context.Cause(ctx)
	}
}

// told takes an answer of the head.
func (w *tickets) told(m *oob.Msg) error {
	var a wire.Ticket
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fmt.Errorf("the way to a node: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.asked[m.A]; c != nil {
		delete(w.asked, m.A)
		c <- a
	}
	return nil
}

// call opens a stream to a node, for the purpose that the word names.
func (w *tickets) call(ctx context.Context, to wire.TicketFor, word string) (s oob.Stream, store string, err error) {
	t, store, err := w.ticket(ctx, to)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	s, err = listener.Call(ctx, t, word)
	return s, store, err
}

// readings are the stores of other nodes that are read directly, one stream each.
type readings struct {
	mu   sync.Mutex
	open map[wire.TicketFor]*reading
}

// reading is one of them. done is closed when it is known how it is read.
type reading struct {
	done chan struct{}
	far  *remote.Far // nil: not directly
}

// directly returns a store of another node, nil if it can only be read by way of the head. The
// detour is reported once.
func (w *tickets) directly(ctx context.Context, to wire.TicketFor) *remote.Far {
	w.files.mu.Lock()
	f, known := w.files.open[to]
	if !known {
		f = &reading{done: make(chan struct{})}
		w.files.open[to] = f
	}
	w.files.mu.Unlock()
	if known {
		select {
		case <-f.done:
			return f.far
		case <-ctx.Done():
			return nil
		}
	}
	defer close(f.done)
	s, store, err := w.call(ctx, to, listener.Files)
	switch {
	case errors.Is(err, errNearest):
	case err != nil:
		if ctx.Err() == nil {
			w.say(fmt.Sprintf("images of node %s come by way of the head: %v", to.Node, err))
		}
	default:
		client, _ := listener.Read(s) // it ends with this process
		f.far = client.Store(store)
	}
	return f.far
}
