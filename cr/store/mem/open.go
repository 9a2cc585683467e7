package mem

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
)

// Open returns the store of a job. here is the memory of this node, a *Memory or a *Near, nil if it has no part in it.
// peers are the other nodes that can be asked. One that cannot be asked is lost, with all that it had: it is no reason
// to wait. Images that are lost are computed of the shards that the nodes have; where peers are found by somebody else (node.Finder),
// that needs a Lister.
func Open(name string, here node.Part, peers node.Peers) *node.Store {
	s := &node.Store{Node: name, Here: here, Peers: peers, Name: Kind}
	_, finds := peers.(node.Finder)
	list, lists := peers.(Lister)
	switch {
	case lists:
		s.Lost = &parity.Lost{List: list.Held}
	case !finds && peers != nil:
		s.Peers = reached{peers}
		s.Lost = &parity.Lost{List: func(ctx context.Context, set string) ([]parity.Held, error) { return held(ctx, s, set) }}
	}
	return s
}

// Lister is what Peers have besides that know which pieces of a set all nodes have, this one included.
type Lister interface {
	Held(ctx context.Context, set string) ([]parity.Held, error)
}

// held lists the pieces of a set on all nodes.
func held(ctx context.Context, s *node.Store, set string) (all []parity.Held, err error) {
	infos, err := s.List(ctx, set)
	if err != nil {
		return nil, err
	}
	at := map[string]remote.Served{}
	parts, _ := s.Peers.Peers()
	for _, p := range parts {
		at[p.Node] = p.Files
	}
	if s.Here != nil {
		at[s.Node] = s.Here
	}
	for _, info := range infos {
		if files := at[info.Node]; files != nil {
			all = append(all, parity.Held{Piece: info.Name, Node: info.Node, At: func(context.Context) remote.Served { return files }})
		}
	}
	return all, nil
}

// reached are the nodes that can be asked.
type reached struct{ of node.Peers }

// Peers leaves out the others.
func (r reached) Peers() ([]node.Peer, []string) {
	peers, _ := r.of.Peers()
	return peers, nil
}

// Over is the store of a job that is over. It is empty.
type Over struct{}

var _ store.Store = Over{}

// errOver is fs.ErrNotExist.
var errOver = fmt.Errorf("it was in the memory of a job that is over: %w", fs.ErrNotExist)

// Kind is Kind.
func (Over) Kind() string { return Kind }

// Shared is false.
func (Over) Shared() bool { return false }

// Begin refuses.
func (Over) Begin(context.Context, string) error { return store.ErrReadOnly }

// Create refuses.
func (Over) Create(context.Context, string, string, store.Options) (store.Writer, error) {
	return nil, store.ErrReadOnly
}

// Commit refuses.
func (Over) Commit(context.Context, string) error { return store.ErrReadOnly }

// Remove has nothing to do.
func (Over) Remove(context.Context, string) error { return nil }

// Open says that it is over.
func (Over) Open(context.Context, string, string) (store.Reader, error) { return nil, errOver }

// Stat says that it is over.
func (Over) Stat(context.Context, string, string) (store.Info, error) { return store.Info{}, errOver }

// List says that it is over.
func (Over) List(context.Context, string) ([]store.Info, error) { return nil, errOver }

// Sets are none.
func (Over) Sets(context.Context, string) ([]string, error) { return nil, nil }
