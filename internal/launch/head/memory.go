package head

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/launch/door"
	"github.com/gorun-mpi/gorun/internal/launch/holder"
	"github.com/gorun-mpi/gorun/internal/launch/home"
	"github.com/gorun-mpi/gorun/internal/launch/room"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/protect"
)

// Snapshots in the memory of the nodes, see packages mem and holder. On its own node the head is the holder. Their
// schemas are in the catalogue like all others, and are removed when the job ends, as the images end with it.

// memory is the level in memory; the loop's, but for what is said to be safe beside it.
type memory struct {
	h      *head
	policy protect.Policy // nil: each image lies on its own node alone
	own    *mem.Memory    // of the head's node
	copier *holder.Copier
	door   *door.Door

	tended tended
	told   bool // how much memory it takes
	left   bool // a node that did not answer may have a set that was removed
}

// openMemory makes ready for snapshots in memory, if the job wants any.
func (h *head) openMemory() error {
	o := &h.opt
	if o.CkptMirror == "" || o.CR == "" {
		return nil
	}
	policy, err := spec.ParseMirror(o.CkptMirror)
	if err != nil {
		return err
	}
	m := &memory{h: h, policy: policy, own: mem.New(room.Free)}
	m.copier = holder.NewCopier(m.own, h.ownName())
	if m.door, err = door.Open("the head's door", holder.Handlers(m.own, nil)); err != nil {
		return err
	}
	h.memory = m
	return nil
}

// closeMemory ends what is in memory: the schemas first.
func (h *head) closeMemory() {
	m := h.memory
	if m == nil {
		return
	}
	m.tended.stop()
	var errs []error
	n := 0
	for _, c := range h.chain {
		if inMemory(c.snap) {
			n++
			c.release()
			_, err := h.cat.DropCopy(c.snap, memPlace)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		h.say("%v; gorun snapshots removes it later", err)
	}
	if n > 0 && h.result.Code != 0 && h.result.Last == 0 {
		h.say("snapshots in the memory of the nodes have ended with the job")
	}
	m.door.Close()
	m.own.Close()
}

// memPlace is where all images in memory are.
var memPlace = snapshot.Place{Kind: mem.Kind}

// inMemory reports whether the images of a snapshot are in the memory of nodes.
func inMemory(s *snapshot.Snapshot) bool { return s != nil && s.Place().Kind == mem.Kind }

// placeFor is where the images of an attempt go, and the name of the store in orders.
func (h *head) placeFor(lasting bool) (snapshot.Place, string) {
	if h.memory != nil && !lasting {
		return memPlace, wire.StoreMem
	}
	return h.place(), wire.StoreTo
}

// openMem opens the store in memory without one node. It is safe beside the loop.
func (h *head) openMem(without string) (store.Store, error) {
	m := h.memory
	if m == nil {
		return mem.Over{}, nil
	}
	return m.store(without), nil
}

func (m *memory) store(without string) *node.Store {
	own := m.h.ownName()
	var here node.Part
	if own != "" && own != without {
		here = m.own
	}
	return mem.Open(own, here, &holders{m.h, without})
}

// holders are the nodes but the head's own.
type holders struct {
	h       *head
	without string
}

// Peers asks the fleet.
func (o *holders) Peers() ([]node.Peer, []string) {
	if o.h.fleet == nil {
		return nil, nil
	}
	all := o.h.fleet.Memories(mem.Kind)
	return slices.DeleteFunc(all, func(p node.Peer) bool { return p.Node == o.without }), nil
}

// ownDoor returns a ticket to the head's door, for an agent of a life or for the holder of a node.
func (m *memory) ownDoor(from, agent, life int) (home.Ticket, error) {
	return m.door.Key().Ticket(from, agent, life)
}

// placement says where the ranks of a life are, and which nodes can hold something.
func (inc *incarnation) placement() (p protect.Placement, err error) {
	h := inc.h
	names, racks := []string{h.ownName()}, h.opt.Racks
	if h.fleet != nil {
		names = h.fleet.Usable()
		if racks == nil {
			racks = h.fleet.Racks()
		}
	}
	for _, name := range names {
		p.Nodes = append(p.Nodes, protect.Node{Name: name, Rack: racks[name]})
	}
	p.Of = make([]int, h.opt.NP)
	for _, l := range inc.links {
		at := slices.Index(names, l.agent.Host())
		if h.fleet == nil {
			at = 0
		}
		if at < 0 && len(l.ranks) > 0 {
			return p, fmt.Errorf("node %s is lost", l.agent.Host())
		}
		for _, rank := range l.ranks {
			p.Of[rank] = at
		}
	}
	return p, nil
}

// canMirror says why the policy cannot be kept on the nodes of the first life.
func (inc *incarnation) canMirror() error {
	m := inc.h.memory
	if m == nil || m.policy == nil || inc.n > 1 {
		return nil
	}
	p, err := inc.placement()
	if err == nil {
		_, err = m.policy.Groups(p)
	}
	if err != nil {
		return spec.WithStatus(spec.ExitUsage, fmt.Errorf("-ckpt-mirror %v: %w", m.policy, err))
	}
	return nil
}

// copyTo has a node copy an image of those that have it.
func (m *memory) copyTo(ctx context.Context, life int, to string, o wire.Copy, from []string) (err error) {
	if o.From, err = m.sources(ctx, life, to, from); err != nil {
		return err
	}
	return m.order(ctx, to, &o, from)
}

// order has a node do what an order says. from are all nodes that the order names.
func (m *memory) order(ctx context.Context, to string, o *wire.Copy, from []string) error {
	if b := m.h.opt.Base; b != nil && b.Place == memPlace {
		o.Rate = b.Rate
	}
	if to != m.h.ownName() {
		return m.h.fleet.Copy(ctx, to, o)
	}
	near := slices.DeleteFunc(m.h.fleet.Memories(mem.Kind), func(p node.Peer) bool { return !slices.Contains(from, p.Node) })
	return m.copier.Copy(ctx, o, near...)
}

// sources are nodes as a holder reaches them.
func (m *memory) sources(ctx context.Context, life int, to string, from []string) (all []wire.Source, err error) {
	f, own := m.h.fleet, m.h.ownName()
	number := f.Number(to)
	for _, name := range from {
		var t home.Ticket
		if name == own {
			t, err = m.ownDoor(number, home.Keeper, life)
		} else {
			t, err = f.KeeperWay(ctx, to, life, name)
		}
		if err != nil {
			return nil, fmt.Errorf("from node %s: %w", name, err)
		}
		all = append(all, wire.Source{Node: name, Ticket: wire.JSON(t)})
	}
	return all, nil
}
