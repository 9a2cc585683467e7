package head

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/kinds"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// Where images lie, as the head sees it: beside their schemas, or in folders of the nodes. Those of other nodes
// are reached through their keepers. Agents ask the head for what they lack, and it passes that on.

// place is where the job's images go; the zero value: beside their schemas.
func (h *head) place() snapshot.Place {
	p := kinds.Place{}
	switch o := &h.opt; {
	case o.CkptStore != "":
		p = kinds.Place{Kind: s3.Kind, Folder: o.CkptStore}
	case o.CkptLocal != "":
		p = kinds.Place{Kind: node.Kind, Folder: o.CkptLocal}
	}
	return h.sealed(snapshot.Place(p), h.opt.CkptKey)
}

// placeOf is where the copies of a level go.
func (h *head) placeOf(l *spec.Level) snapshot.Place {
	return h.sealed(l.Place, cmp.Or(l.Key, h.opt.CkptKey))
}

// sealed is a place, sealed with the key of a file. Without a file it is as it was.
func (h *head) sealed(p snapshot.Place, keyFile string) snapshot.Place {
	if keyFile == "" {
		return p
	}
	if p == snapshot.Beside {
		return snapshot.Place(kinds.Beside(h.cat.Root(), keyFile))
	}
	return snapshot.Place(kinds.Place(p).Sealed(keyFile))
}

// lookAtPlaces finds out before the first checkpoint, which may be hours away, whether images can go where they are to go.
// What a place lacks on this machine is an error. That a store does not answer now is none.
func (h *head) lookAtPlaces() error {
	if h.opt.CR == "" {
		return nil
	}
	if err := h.lookAt(h.place(), "checkpoints"); err != nil {
		return err
	}
	for i := range h.opt.Levels {
		l := &h.opt.Levels[i]
		if err := h.lookAt(h.placeOf(l), "copies to level "+l.Name); err != nil {
			return fmt.Errorf("level %s: %w", l.Name, err)
		}
	}
	return nil
}

func (h *head) lookAt(p snapshot.Place, what string) error {
	if p == snapshot.Beside {
		return nil
	}
	st, err := h.openPlace(p, nil)
	if err != nil || kinds.Place(p).Inner().Kind != s3.Kind {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	if _, err := st.Sets(ctx, h.id); err != nil {
		h.say("warning: %s will fail if this stays so: %v", what, err)
	}
	return nil
}

// lookWithin is how long a store may take to answer at the start.
const lookWithin = 5 * time.Second

// ownName is the name of the head's node, "" if the job has no part in it.
func (h *head) ownName() string {
	if h.fleet == nil {
		return wire.Hostname()
	}
	return h.fleet.OwnName()
}

// nodeNames are the nodes of the job.
func (h *head) nodeNames() []string {
	if h.fleet == nil {
		return []string{wire.Hostname()}
	}
	return h.fleet.Names()
}

// openPlace is the catalogue's way to images that do not lie beside their schemas.
func (h *head) openPlace(p snapshot.Place, known []string) (store.Store, error) {
	return h.opener(known, "").Open(kinds.Place(p))
}

// opener opens stores, and leaves out one node.
func (h *head) opener(known []string, without string) kinds.Opener {
	return kinds.Opener{Env: h.opt.Env, Parts: func(p kinds.Place) (store.Store, error) {
		if p.Kind == mem.Kind {
			return h.openMem(without)
		}
		return h.openWithout(snapshot.Place(p), known, without)
	}}
}

// openWithout opens a store on nodes, without its seal, and leaves out one node.
func (h *head) openWithout(p snapshot.Place, known []string, without string) (*node.Store, error) {
	if p = snapshot.Place(kinds.Place(p).Inner()); p.Kind != node.Kind {
		return nil, kinds.Unknown(kinds.Place(p))
	}
	own := h.ownName()
	s := &node.Store{Node: own, Peers: &keepers{h, p.Folder, known, without}}
	if own == "" || own == without {
		return s, nil
	}
	folder, err := node.Expand(p.Folder, own)
	if err == nil {
		s.Here, err = node.OpenLocal(folder)
	}
	return s, err
}

// keepers are the nodes but the head's own.
type keepers struct {
	h       *head
	folder  string
	known   []string // nodes that may have had parts of it before
	without string
}

// Peers asks the fleet.
func (k *keepers) Peers() (reached []node.Peer, unreachable []string) {
	var all []string
	if f := k.h.fleet; f != nil {
		reached, unreachable = f.Files(func(name string) (string, error) { return node.Expand(k.folder, name) })
		all = f.Names()
	}
	reached = slices.DeleteFunc(reached, func(p node.Peer) bool { return p.Node == k.without })
	own := k.h.ownName()
	for _, name := range k.known {
		if name != own && !slices.Contains(all, name) && !slices.Contains(unreachable, name) {
			unreachable = append(unreachable, name)
		}
	}
	return reached, unreachable
}

// storesFor names the stores of a life to an agent. A folder that cannot be is the agent's error, when it is used.
func (inc *incarnation) storesFor(l *link) map[string]wire.Store {
	h := inc.h
	stores := map[string]wire.Store{}
	add := func(name string, p snapshot.Place) {
		at := kinds.Place(p)
		if inner := at.Inner(); inner.Kind == node.Kind {
			folder, _ := node.Expand(inner.Folder, l.agent.Host())
			at = at.WithFolder(folder)
		}
		stores[name] = wire.Store{Kind: at.Kind, Folder: exact.String(at.Folder), Node: l.agent.Host()}
	}
	switch {
	case h.opt.CR == "":
	case h.place() == (snapshot.Place{}):
		stores[wire.StoreTo] = wire.Store{Kind: store.KindDir, Folder: exact.String(h.cat.Root())}
	default:
		add(wire.StoreTo, h.place())
	}
	if h.memory != nil {
		add(wire.StoreMem, memPlace)
	}
	for i, p := range inc.sources() {
		add(sourceName(i), p)
	}
	return stores
}

// sources are the places, other than beside the schemas, where images lie that this life begins with. It may be called
// beside the loop.
func (inc *incarnation) sources() (all []snapshot.Place) {
	if inc.from == nil {
		return nil
	}
	chain, err := inc.from.Chain()
	if err != nil {
		chain = []*snapshot.Snapshot{inc.from}
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

// sourceName is the name of a source in orders.
func sourceName(i int) string {
	if i == 0 {
		return wire.StoreFrom
	}
	return fmt.Sprint(wire.StoreFrom, i+1)
}

// source is the place with a name.
func (inc *incarnation) source(name string) (snapshot.Place, bool) {
	for i, p := range inc.sources() {
		if sourceName(i) == name {
			return p, true
		}
	}
	return snapshot.Place{}, false
}

// copiesOf lists where a rank's image of a snapshot lies. That in folders of nodes comes first: it may be there already.
func (inc *incarnation) copiesOf(s *snapshot.Snapshot, rank int) wire.Image {
	im, sources := s.Schema.Images[rank], inc.sources()
	var all []wire.Image
	for _, c := range s.Copies() {
		w := wire.Image{Seq: s.Schema.Sequence, Path: exact.String(s.ImagePath(rank)), Digest: im.Digest}
		if p := c.Place(); p != snapshot.Beside {
			w = wire.Image{Seq: s.Schema.Sequence, Store: sourceName(slices.Index(sources, p)), Set: c.Set, Piece: im.File, Digest: im.Digest, Node: im.Node}
		}
		all = append(all, w)
	}
	first := all[0]
	first.Or = all[1:]
	return first
}

// imagesFor lists, for some ranks, what they begin with: their images and those that these build on.
func (inc *incarnation) imagesFor(ranks []int) map[int][]wire.Image {
	if inc.from == nil {
		return nil
	}
	chain := inc.chain
	if len(chain) == 0 {
		chain = []*snapshot.Snapshot{inc.from}
	}
	all := map[int][]wire.Image{}
	for _, rank := range ranks {
		next := inc.from.Schema.Sequence
		for _, s := range chain {
			if s.Schema.Sequence != next {
				continue // others build on it
			}
			all[rank] = append(all[rank], inc.copiesOf(s, rank))
			next = s.Schema.Images[rank].Base
		}
	}
	return all
}

// files answers an agent that asks for images of other nodes.
func (inc *incarnation) files(l *link, m *oob.Msg) {
	if l.files == nil {
		l.files = remote.NewServer(func(name string) remote.Served { return inc.find(l, name) }, func(p []byte) error {
			l.out.Send(oob.Msg{Kind: oob.Files, From: oob.Head, To: oob.AgentAddr(l.index), Data: p})
			return nil
		})
	}
	if err := l.files.Handle(m.Data); err != nil {
		inc.h.say("agent %d: %v", l.index, err)
		l.agent.Kill()
	}
}

// find returns what an agent may ask for: the images that this life begins with, on all nodes or on one. It is called
// beside the loop.
func (inc *incarnation) find(l *link, name string) remote.Served {
	name, at, one := strings.Cut(name, "@")
	var s *node.Store
	var err error
	names, moves := inc.readsMoved(name)
	place, known := inc.source(name)
	switch {
	case moves:
		s, err = inc.h.openWithout(inc.h.place(), names, l.agent.Host())
	case !known:
		return nil
	case place.Kind == mem.Kind:
		if inc.h.memory == nil {
			return nil
		}
		s = inc.h.memory.store(l.agent.Host())
	default:
		s, err = inc.h.openWithout(place, inc.from.Nodes(), l.agent.Host())
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
			inc.h.post(func() { l.passes(inc.h, at) })
			return p.Files
		}
	}
	return &node.Store{Peers: node.Alone{at}} // it has left since it was found to have something
}

// sound finds the snapshot that the job begins from, where that could not be told before its nodes were up.
func (h *head) sound() (*snapshot.Snapshot, error) {
	return spec.Sound(append([]*snapshot.Snapshot{h.opt.From}, h.opt.Older...), h.opt.NP, h.opt.Files, func(s *snapshot.Snapshot, why error) {
		h.say("snapshot %d of job %s cannot be used: %v", s.Schema.Sequence, s.Schema.Job, why)
	}, spec.Slow{After: spec.SlowAfter, Tell: func(line string) { h.say("%s", line) }})
}

// beginFrom changes what the first life begins from.
func (inc *incarnation) beginFrom(s *snapshot.Snapshot) error {
	h := inc.h
	if s == h.opt.From {
		return nil
	}
	hold, err := s.Hold()
	if err != nil {
		return err
	}
	h.chain[0].hold.Release()
	h.opt.From, inc.from = s, s
	h.chain[0] = commit{snap: s, hold: hold, input: beginning(s)}
	h.say("job %s goes on from snapshot %d instead", h.id, s.Schema.Sequence)
	return nil
}

// setOf is the set of a snapshot in the store that images go into.
func setOf(p *snapshot.Pending) string {
	_, set := p.Images()
	return set
}
