package agent

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// others finds the nodes that have a piece. The head knows them. The piece is read from the node
// itself, or by way of the head if the nodes cannot reach each other.
type others struct {
	*places
	name string // of the store
	node string // this one
}

// Peers is not asked where Find is.
func (o others) Peers() ([]node.Peer, []string) { return nil, nil }

// Find asks the head, once for each set.
func (o others) Find(ctx context.Context, set, piece string) ([]node.Peer, error) {
	all, err := o.list(ctx, set)
	if err != nil {
		return nil, err
	}
	var have []node.Peer
	for _, info := range all {
		if info.Name == piece && info.Node != o.node {
			if direct := o.ways.directly(ctx, wire.TicketFor{Node: info.Node, Store: o.name}); direct != nil {
				have = append(have, node.Peer{Node: info.Node, Files: direct})
			}
			have = append(have, node.Peer{Node: info.Node, Files: o.far.Store(wire.StoreAt(o.name, info.Node))})
		}
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("%s/%s: no other node that answers has it: %w", set, piece, fs.ErrNotExist)
	}
	return have, nil
}

// list lists what the other nodes have of a set.
func (o others) list(ctx context.Context, set string) (all []store.Info, err error) {
	key := [2]string{o.name, set}
	o.mu.Lock()
	all, ok := o.lists[key]
	o.mu.Unlock()
	if ok {
		return all, nil
	}
	if all, err = o.far.Store(o.name).List(ctx, set); err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.lists[key] = all
	o.mu.Unlock()
	return all, nil
}
