package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/internal/launch/holder"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// Images in memory, see package mem. The memory of this node belongs to another process of it.

// nearWithin bounds the call for the memory of this node.
const nearWithin = 20 * time.Second

// near calls for the memory of this node. The places are locked.
func (p *places) near(name string) (*mem.Near, error) {
	if p.memory == nil {
		ctx, cancel := context.WithTimeout(context.Background(), nearWithin)
		defer cancel()
		s, _, err := p.ways.call(ctx, wire.WayTo{Node: name}, holder.Word)
		if err != nil {
			return nil, fmt.Errorf("the memory of node %s: %w", name, err)
		}
		p.memory = mem.NewNear(s)
	}
	return p.memory, nil
}

// inSlots reports whether a store's pieces are written into slots.
func inSlots(st store.Store) bool { return st.Kind() == mem.Kind }

// lent is a slot that a rank writes its image to itself.
type lent struct {
	piece string
	none  func() error // there is no image; nothing happens if there is one
}

// lend lends a rank a slot for an image that it writes itself. The slot before is given back: a rank writes one image.
func (a *agent) lend(r *rankProc, p image.NewPiece) (path string, written func() error, err error) {
	path, whole, none, err := p.Store.(store.Lender).Lend(p.Context, p.Set, p.Name, store.Options{})
	if err != nil {
		return "", nil, err
	}
	if before := r.lent.Swap(&lent{p.Name, none}); before != nil {
		before.none()
	}
	return path, whole, nil
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
