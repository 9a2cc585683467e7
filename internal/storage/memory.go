package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/holder"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
	"github.com/gorun-mpi/gorun/internal/system/freemem"
)

// Snapshots in the memory of the nodes, see packages mem and holder. On its own node the head is the holder. Their
// schemas are in the catalogue like all others, and are removed when the job ends, as the images end with it.
//
// Images in memory are full, and travel whole. To send only what has changed would gain little: pages come and go, so a
// block is seldom where it was in the image before. Of two images of examples/solver 93 % of the pages were the same,
// and none of the pieces of 64 KB at the same offset.

// memory is the level in memory.
type memory struct {
	sv     *Service
	policy protect.Policy // nil: each image lies on its own node alone
	own    *mem.Memory    // of the head's node
	copier *holder.Copier
	door   *listener.Listener

	tended tended
	told   bool // the user was told how much memory it takes
	left   bool // a node that did not answer may have a set that was removed
}

// openMemory prepares snapshots in memory, if the job wants any.
func (sv *Service) openMemory() error {
	o := sv.opt
	if o.CkptMirror == "" || o.CR == "" {
		return nil
	}
	policy, err := spec.ParseMirror(o.CkptMirror)
	if err != nil {
		return err
	}
	m := &memory{sv: sv, policy: policy, own: mem.New(freemem.Free)}
	m.copier = holder.NewCopier(m.own, sv.OwnName())
	if m.door, err = listener.Open("the head's door", holder.Handlers(m.own, nil)); err != nil {
		return err
	}
	sv.memory = m
	return nil
}

// CloseMemory removes the snapshots in memory, their schemas first. It tells the user if a job that
// has failed could have used them.
func (sv *Service) CloseMemory(failed bool) {
	m := sv.memory
	if m == nil {
		return
	}
	m.tended.stop()
	var errs []error
	n := 0
	for _, c := range sv.chain {
		if InMemory(c.snap) {
			n++
			c.release()
			_, err := sv.cat.DropCopy(c.snap, memPlace)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		sv.say("%v; gorun snapshots removes it later", err)
	}
	if n > 0 && failed {
		sv.say("snapshots in the memory of the nodes have ended with the job")
	}
	m.door.Close()
	m.own.Close()
}

// memPlace is where all images in memory are.
var memPlace = snapshot.Place{Kind: mem.Kind}

// HasMemory reports whether images go to the memory of the nodes.
func (sv *Service) HasMemory() bool { return sv.memory != nil }

// InMemory reports whether the images of a snapshot are in the memory of nodes.
func InMemory(s *snapshot.Snapshot) bool { return s != nil && s.Place().Kind == mem.Kind }

// placeFor is the place for the images of an attempt, and the name of the store in orders.
func (sv *Service) placeFor(lasting bool) (snapshot.Place, string) {
	if sv.memory != nil && !lasting {
		return memPlace, wire.StoreMem
	}
	return sv.place(), wire.StoreTo
}

// openMem opens the store in memory without one node. It is safe beside the head's goroutine.
func (sv *Service) openMem(without string) (store.Store, error) {
	m := sv.memory
	if m == nil {
		return mem.Over{}, nil
	}
	return m.store(without), nil
}

func (m *memory) store(without string) *node.Store {
	own := m.sv.OwnName()
	var here node.Part
	if own != "" && own != without {
		here = m.own
	}
	return mem.Open(own, here, &holders{m.sv, without})
}

// holders are the nodes except the head's own.
type holders struct {
	sv      *Service
	without string
}

// Peers asks the fleet.
func (o *holders) Peers() ([]node.Peer, []string) {
	if o.sv.nodes == nil {
		return nil, nil
	}
	all := o.sv.nodes.Memories(mem.Kind)
	return slices.DeleteFunc(all, func(p node.Peer) bool { return p.Node == o.without }), nil
}

// Ticket returns a ticket to the head's door, which offers the memory of its node, for an agent of
// a life or for the holder of a node. The job must have memory.
func (sv *Service) Ticket(from, agent, life int) (rendezvous.Ticket, error) {
	return sv.memory.ownDoor(from, agent, life)
}

func (m *memory) ownDoor(from, agent, life int) (rendezvous.Ticket, error) {
	return m.door.Key().Ticket(from, agent, life)
}

// placement says where the ranks are, and which nodes can hold pieces.
func (sv *Service) placement() (p protect.Placement, err error) {
	names, racks := []string{sv.OwnName()}, sv.opt.Racks
	if sv.nodes != nil {
		names = sv.nodes.Usable()
		if racks == nil {
			racks = sv.nodes.Racks()
		}
	}
	for _, name := range names {
		p.Nodes = append(p.Nodes, protect.Node{Name: name, Rack: racks[name]})
	}
	p.Of = make([]int, sv.opt.NP)
	for rank, name := range sv.lineup.Nodes {
		at := slices.Index(names, name)
		switch {
		case sv.nodes == nil || name == "":
			at = 0
		case at < 0:
			return p, fmt.Errorf("node %s is lost", name)
		}
		p.Of[rank] = at
	}
	return p, nil
}

// CanMirror says why the policy of images in memory cannot be kept on the nodes of the first life.
func (sv *Service) CanMirror() error {
	m := sv.memory
	if m == nil || m.policy == nil || sv.lineup.Life > 1 {
		return nil
	}
	p, err := sv.placement()
	if err == nil {
		_, err = m.policy.Groups(p)
	}
	if err != nil {
		return spec.WithStatus(spec.ExitUsage, fmt.Errorf("-ckpt-mirror %v: %w", m.policy, err))
	}
	return nil
}

// copyTo makes a node copy an image from the nodes that have it.
func (m *memory) copyTo(ctx context.Context, life int, to string, o wire.Copy, from []string) (err error) {
	if o.From, err = m.sources(ctx, life, to, from); err != nil {
		return err
	}
	return m.order(ctx, to, &o, from)
}

// order makes a node carry out an order. from are all nodes that the order names.
func (m *memory) order(ctx context.Context, to string, o *wire.Copy, from []string) error {
	if b := m.sv.opt.Base; b != nil && b.Place == memPlace {
		o.Rate = b.Rate
	}
	if to != m.sv.OwnName() {
		return m.sv.nodes.Copy(ctx, to, o)
	}
	near := slices.DeleteFunc(m.sv.nodes.Memories(mem.Kind), func(p node.Peer) bool { return !slices.Contains(from, p.Node) })
	return m.copier.Copy(ctx, o, near...)
}

// sources are nodes as a holder reaches them.
func (m *memory) sources(ctx context.Context, life int, to string, from []string) (all []wire.Source, err error) {
	f, own := m.sv.nodes, m.sv.OwnName()
	number := f.Number(to)
	for _, name := range from {
		var t rendezvous.Ticket
		if name == own {
			t, err = m.ownDoor(number, rendezvous.Keeper, life)
		} else {
			t, err = f.KeeperTicket(ctx, to, life, name)
		}
		if err != nil {
			return nil, fmt.Errorf("from node %s: %w", name, err)
		}
		all = append(all, wire.Source{Node: name, Ticket: wire.JSON(t)})
	}
	return all, nil
}
