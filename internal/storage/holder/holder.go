// Package holder is the part that keepers and the head share as holders of images. Each has the
// memory of its node (package mem), offers it to the agents there and to other nodes, and copies
// images of other nodes into it.
//
//	agent of the node        holder                          holder of another node
//	  "memory" at its door ->  lends slots
//	                           <-- order of the head: copy rank 3's image of set S, digest D, from n2
//	                           "files" at the door of n2 ---->  reads its memory
//	                           checks the digest
//	                           -- done, or why not --> head
//
// An order may also be to compute a shard from the images of several nodes (package parity): these
// are read all at once, a stretch at a time, and their parity is kept.
//
// The head decides what is copied where, by a policy (package protect), and counts a snapshot as
// whole when all orders are done. A copy is read through on arrival, and its digest compared.
// Images from which a shard was computed are read through on their own nodes.
//
// An order may limit the rate at which the node reads, for all its orders together. The ranks'
// messages have the rest of the network, and of the processors that encrypt and sum.
package holder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// Word is the word of agents at the door of their own node.
const Word = "memory"

// Handlers are those of a door: agents of the node get slots, other nodes read. find returns other
// stores that the door offers; it may be nil.
func Handlers(m *mem.Memory, find func(name string) remote.Served) map[string]listener.Handler {
	return map[string]listener.Handler{
		Word: func(_ rendezvous.Caller, s oob.Stream) { mem.Serve(m, s) },
		listener.Files: listener.Offer(func(name string) remote.Served {
			if name == mem.Kind {
				return m
			}
			if find == nil {
				return nil
			}
			return find(name)
		}),
	}
}

// atOnce is how many copies are under way at a node: enough for a fast network, few enough that none waits for long.
const atOnce = 4

// Copier copies images into the memory of its node.
type Copier struct {
	Memory *mem.Memory
	Node   string
	turns  chan struct{}
	pace   flush.Pace
}

// NewCopier returns the copier of a node.
func NewCopier(m *mem.Memory, name string) *Copier {
	return &Copier{Memory: m, Node: name, turns: make(chan struct{}, atOnce)}
}

// Copy obeys an order. near are nodes that can be asked without a ticket.
func (c *Copier) Copy(ctx context.Context, o *wire.Copy, near ...node.Peer) error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := c.Memory.Begin(ctx, o.Set); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if o.Parity != nil {
		return c.shard(ctx, o, near)
	}
	from := &sources{have: o.From, near: near}
	defer from.close()
	_, err := mem.Open(c.Node, c.Memory, from).Fetch(ctx, o.Set, o.Piece, node.Image(o.Digest), func(n int64) {
		_ = c.pace.Wait(ctx, n, o.Rate) // Fetch sees the context's end itself
	})
	return err
}

// sources are the nodes that an order names. Each is called when it is needed.
type sources struct {
	have []wire.Source
	near []node.Peer
	ends []func()
}

func (s *sources) close() {
	for _, end := range s.ends {
		end()
	}
}

// Peers is not asked where Find is.
func (s *sources) Peers() ([]node.Peer, []string) { return nil, nil }

// Find calls the nodes.
func (s *sources) Find(ctx context.Context, set, piece string) ([]node.Peer, error) {
	have := s.near
	var errs []error
	for _, f := range s.have {
		var t rendezvous.Ticket
		err := json.Unmarshal(f.Ticket, &t)
		var stream oob.Stream
		if err == nil {
			stream, err = listener.Call(ctx, t, listener.Files)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Node, err))
			continue
		}
		client, end := listener.Read(stream)
		s.ends = append(s.ends, end)
		have = append(have, node.Peer{Node: f.Node, Files: client.Store(mem.Kind)})
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("%s/%s: no node is reached that has it: %w", set, piece, errors.Join(errs...))
	}
	return have, nil
}
