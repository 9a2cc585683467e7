package storage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Source describes the images that a life begins with: those of a snapshot and those that they
// build on. Agents are told where these lie, and ask for those that they lack.
type Source struct {
	sv    *Service
	from  *snapshot.Snapshot   // nil: nothing
	chain []*snapshot.Snapshot // from and the snapshots that its images build on; empty: from alone
}

// Source returns the images of a snapshot, nil for none.
func (sv *Service) Source(from *snapshot.Snapshot) *Source { return &Source{sv: sv, from: from} }

// Find finds the snapshots that the images build on.
func (o *Source) Find() (err error) {
	o.chain, err = o.from.Chain()
	return err
}

// Stores names the stores of a life to the agent of a node. An impossible folder becomes the
// agent's error, when it is used.
func (o *Source) Stores(host string) map[string]wire.Store {
	sv, stores := o.sv, map[string]wire.Store{}
	switch {
	case sv.opt.CR == "":
	case sv.beside():
		stores[wire.StoreTo] = wire.Store{Kind: store.KindDir, Folder: rawstring.String(sv.cat.Root())}
	default:
		stores[wire.StoreTo] = sv.storeOn(sv.place(), host)
	}
	if sv.memory != nil {
		stores[wire.StoreMem] = sv.storeOn(memPlace, host)
	}
	for i, p := range o.places() {
		stores[sourceName(i)] = sv.storeOn(p, host)
	}
	return stores
}

// places are the places, other than beside the schemas, where the images lie.
func (o *Source) places() (all []snapshot.Place) {
	if o.from == nil {
		return nil
	}
	chain, err := o.from.Chain()
	if err != nil {
		chain = []*snapshot.Snapshot{o.from}
	}
	for _, s := range chain {
		for _, c := range s.Copies() {
			if p := c.Place(); p != snapshot.Beside && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// sourceName is the name of a place in orders.
func sourceName(i int) string {
	if i == 0 {
		return wire.StoreFrom
	}
	return fmt.Sprint(wire.StoreFrom, i+1)
}

// place is the place with a name.
func (o *Source) place(name string) (snapshot.Place, bool) {
	for i, p := range o.places() {
		if sourceName(i) == name {
			return p, true
		}
	}
	return snapshot.Place{}, false
}

// copiesOf lists where a rank's image of a snapshot lies. The copy in folders of nodes comes first:
// the node may have it already.
func (o *Source) copiesOf(s *snapshot.Snapshot, rank int) wire.Image {
	im, places := s.Schema.Images[rank], o.places()
	var all []wire.Image
	for _, c := range s.Copies() {
		w := wire.Image{Seq: s.Schema.Sequence, Path: rawstring.String(s.ImagePath(rank)), Digest: im.Digest}
		if p := c.Place(); p != snapshot.Beside {
			w = wire.Image{Seq: s.Schema.Sequence, Store: sourceName(slices.Index(places, p)), Set: c.Set, Piece: im.File, Digest: im.Digest, Node: im.Node}
		}
		all = append(all, w)
	}
	first := all[0]
	first.Or = all[1:]
	return first
}

// Images lists, for some ranks, the images that they begin with and those that these build on.
func (o *Source) Images(ranks []int) map[int][]wire.Image {
	if o.from == nil {
		return nil
	}
	chain := o.chain
	if len(chain) == 0 {
		chain = []*snapshot.Snapshot{o.from}
	}
	all := map[int][]wire.Image{}
	for _, rank := range ranks {
		next := o.from.Schema.Sequence
		for _, s := range chain {
			if s.Schema.Sequence != next {
				continue // others build on it
			}
			all[rank] = append(all[rank], o.copiesOf(s, rank))
			next = s.Schema.Images[rank].Base
		}
	}
	return all
}

// Shelf lists the images of all ranks of the snapshot, whatever their number.
func (o *Source) Shelf() (all []wire.Image) {
	for rank := range o.from.Schema.NP {
		all = append(all, o.copiesOf(o.from, rank))
	}
	return all
}

// moves reports whether a name is that of the store with the images of a move, on other nodes.
// moved are the nodes that may have some; nil: no rank moves.
func (o *Source) moves(name string, moved []string) bool {
	return moved != nil && name == wire.StoreTo && !o.sv.beside()
}

// Served returns the store that the agent of a node may ask for: the images that the life begins
// with or those of a move, on all other nodes or on one (NAME@NODE). passes is called with a node
// whose images will pass through this process. Served is safe beside the head's goroutine, and so
// passes must be.
func (o *Source) Served(name, host string, moved []string, passes func(node string)) remote.Served {
	name, at, one := strings.Cut(name, "@")
	var s *node.Store
	var err error
	sv := o.sv
	place, known := o.place(name)
	switch {
	case o.moves(name, moved):
		s, err = sv.openWithout(sv.place(), moved, host)
	case !known:
		return nil
	case place.Kind == mem.Kind:
		if sv.memory == nil {
			return nil
		}
		s = sv.memory.store(host)
	default:
		s, err = sv.openWithout(place, o.from.Nodes(), host)
	}
	if err != nil {
		return nil
	}
	if !one {
		return s
	}
	if s.Here != nil && at == s.Node {
		return s.Here
	}
	reached, _ := s.Peers.Peers()
	for _, p := range reached {
		if p.Node == at {
			passes(at)
			return p.Files
		}
	}
	return &node.Store{Peers: node.Alone{at}} // the node has left since it was found to have a piece
}

// Folder returns the folder that an agent wants to read on a node, or "" and the name of the store
// there if it is not a folder. The agent may read the store with the images that the life begins
// with, and that of a move.
func (o *Source) Folder(to wire.TicketFor, moved []string) (folder, store string, err error) {
	place, known := o.place(to.Store)
	switch {
	case to.Store == "":
		return "", "", nil
	case o.moves(to.Store, moved):
		folder, err = node.Expand(storeurl.Place(o.sv.place()).Inner().Folder, to.Node)
	case known && place.Kind == mem.Kind:
		store = mem.Kind
	case !known || storeurl.Place(place).Inner().Kind != node.Kind:
		err = fmt.Errorf("no store %q is read from other nodes", to.Store)
	default:
		folder, err = node.Expand(storeurl.Place(place).Inner().Folder, to.Node)
	}
	return folder, store, err
}
