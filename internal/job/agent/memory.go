package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/holder"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
)

// Images in memory, see package mem. The memory of this node belongs to another process of it.

// nearWithin bounds the call for the memory of this node.
const nearWithin = 20 * time.Second

// near calls for the memory of this node. The places are locked.
func (p *places) near(name string) (*mem.Near, error) {
	if p.memory == nil {
		ctx, cancel := context.WithTimeout(context.Background(), nearWithin)
		defer cancel()
		s, _, err := p.ways.call(ctx, wire.TicketFor{Node: name}, holder.Word)
		if err != nil {
			return nil, fmt.Errorf("the memory of node %s: %w", name, err)
		}
		p.memory = mem.NewNear(s)
	}
	return p.memory, nil
}

// inMemory finds what is in the memory of the nodes, this one included.
type inMemory struct {
	others
	here *mem.Near
}

// Held lists what the nodes have of a set. Each node that can be reached is asked directly, the
// others by way of the head.
func (o inMemory) Held(ctx context.Context, set string) (all []parity.Held, err error) {
	own, err := o.here.List(ctx, set)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, info := range own {
		all = append(all, parity.Held{Piece: info.Name, Node: o.node, At: func(context.Context) remote.Served { return o.here }})
	}
	far, err := o.list(ctx, set)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(all) > 0) {
		return nil, err
	}
	for _, info := range far {
		if info.Node != o.node {
			all = append(all, parity.Held{Piece: info.Name, Node: info.Node, At: func(ctx context.Context) remote.Served { return o.at(ctx, info.Node) }})
		}
	}
	return all, nil
}

// at is the memory of another node.
func (o inMemory) at(ctx context.Context, name string) remote.Served {
	if direct := o.ways.directly(ctx, wire.TicketFor{Node: name, Store: o.name}); direct != nil {
		return direct
	}
	return o.far.Store(wire.StoreAt(o.name, name))
}

// inSlots reports whether a store's pieces are written into slots.
func inSlots(st store.Store) bool { return st.Kind() == mem.Kind }

// lent is a slot that a rank writes its image to itself.
type lent struct {
	piece string
	store.Lent
}

// lend lends a rank a slot for an image that it writes itself.
func (a *agent) lend(r *rankProc, p image.NewPiece) (path string, written func() error, err error) {
	l, err := p.Store.(store.Lender).Lend(p.Context, p.Set, p.Name, store.Options{})
	if err != nil {
		return "", nil, err
	}
	r.lent.Store(&lent{p.Name, l})
	return l.Path, l.Commit, nil
}

// giveBack gives back the slot that a rank was lent before: it writes one image. Nothing happens if it has an image.
func (r *rankProc) giveBack() {
	if l := r.lent.Swap(nil); l != nil {
		l.Abort()
	}
}

// makesRoom sets room aside for the image that a rank is about to write, now that its size is
// known. It returns the message for the head.
func (a *agent) makesRoom(r *rankProc, m oob.Msg) oob.Msg {
	l := r.lent.Load()
	if l == nil {
		return m
	}
	if err := l.Grow(int64(m.A)); err != nil {
		m.Kind, m.A, m.B, m.Data = oob.Failed, 0, 0, []byte(a.withRemedy(err).Error())
	}
	return m
}

// named gives an image its name in the store, where the rank knows but its path.
func (l *lent) named(m oob.Msg) oob.Msg {
	var info oob.ImageInfo
	if l == nil || json.Unmarshal(m.Data, &info) != nil {
		return m
	}
	info.File = l.piece
	m.Data = wire.JSON(info)
	return m
}
