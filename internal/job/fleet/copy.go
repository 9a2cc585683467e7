package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	images "github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Images in the memory of the nodes: the head orders a keeper to copy one of another node, see package holder.

// byName returns the number of a node, or -1 if there is none.
func (f *Fleet) byName(name string) int {
	return slices.IndexFunc(f.nodes, func(n *node) bool { return n.Name == name })
}

// Copy makes a node copy an image, and waits for its answer. ErrLost: the node is lost.
func (f *Fleet) Copy(ctx context.Context, to string, o *wire.Copy) error {
	f.mu.Lock()
	i := f.byName(to)
	if i < 0 || f.nodes[i].own || f.nodes[i].state != up && f.nodes[i].state != suspect {
		f.mu.Unlock()
		return fmt.Errorf("%s: %w", to, ErrLost)
	}
	n := f.nodes[i]
	f.number++
	number, answer := f.number, make(chan wire.Copied, 1)
	n.copies[number] = answer
	n.queue.Send(oob.Msg{Kind: oob.Copy, From: oob.Head, A: number, Data: wire.JSON(o)})
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(n.copies, number)
		f.mu.Unlock()
	}()
	select {
	case c := <-answer:
		if c.Err != "" {
			return errors.New(c.Err)
		}
		return nil
	case <-n.ended:
		return fmt.Errorf("%s: %w", to, ErrLost)
	case <-ctx.Done():
	}
	n.queue.Send(oob.Msg{Kind: oob.Copy, From: oob.Head, A: number}) // give it up, and say so
	select {
	case <-answer:
	case <-n.ended:
	}
	return context.Cause(ctx)
}

// copied takes an answer.
func (n *node) copied(m *oob.Msg) {
	var c wire.Copied
	if err := json.Unmarshal(m.Data, &c); err != nil {
		c.Err = err.Error()
	}
	if answer := n.copies[m.A]; answer != nil {
		delete(n.copies, m.A)
		answer <- c
	}
}

// KeeperTicket returns how the holder of a node, or the head, reaches another. from is the caller's name.
func (f *Fleet) KeeperTicket(ctx context.Context, from string, life int, to string) (rendezvous.Ticket, error) {
	f.mu.Lock()
	i := f.byName(from)
	f.mu.Unlock()
	if i < 0 {
		return rendezvous.Ticket{}, fmt.Errorf("the job has no node %s", from)
	}
	t, _, err := f.Ticket(ctx, &Agent{Node: i}, rendezvous.Keeper, life, to, "")
	return t, err
}

// Number is that of a node, 0 if there is none.
func (f *Fleet) Number(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.byName(name), 0)
}

// Lost returns a channel that is closed when a node is lost, nil if there is no such node.
func (f *Fleet) Lost(name string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.byName(name); i >= 0 {
		return f.nodes[i].ended
	}
	return nil
}

// Memories returns the memories of the other nodes that can be asked, by way of their keepers' streams.
func (f *Fleet) Memories(kind string) (reached []images.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if !n.own && n.queue != nil && (n.state == up || n.state == suspect) {
			reached = append(reached, images.Peer{Node: n.Name, Files: n.files.client.Store(kind)})
		}
	}
	return reached
}

// Usable are the names of the nodes that may be used.
func (f *Fleet) Usable() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.usable() {
			names = append(names, n.Name)
		}
	}
	return names
}

// Racks are those of the nodes that have told theirs, by name.
func (f *Fleet) Racks() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := map[string]string{}
	for _, n := range f.nodes {
		if n.info != nil && n.info.Rack != "" {
			of[n.Name] = n.info.Rack
		}
	}
	return of
}
