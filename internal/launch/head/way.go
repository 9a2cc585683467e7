package head

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/kinds"
	"github.com/gorun-mpi/gorun/internal/launch/fleet"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// wayWithin bounds the wait for a keeper that opens its door.
const wayWithin = 5 * time.Second

// way tells an agent how it reaches a node directly.
func (inc *incarnation) way(l *link, m *oob.Msg) {
	answer := func(w wire.Way) {
		l.out.Send(oob.Msg{Kind: oob.Way, From: oob.Head, To: oob.AgentAddr(l.index), A: m.A, Data: wire.JSON(w)})
	}
	var to wire.WayTo
	folder, store, err := "", "", json.Unmarshal(m.Data, &to)
	if err == nil {
		folder, store, err = inc.folderOf(to)
	}
	if err == nil && inc.h.memory != nil && store == inc.memoryOf(to) && (l.kept == nil || to.Node == inc.h.ownName()) {
		answer(inc.ownWay(l, store))
		return
	}
	if err == nil && l.kept == nil {
		err = errors.New("the job is on one machine")
	}
	if err != nil {
		answer(wire.Way{Err: err.Error()})
		return
	}
	go func() { // a keeper may have to be waited for
		ctx, cancel := context.WithTimeoutCause(context.Background(), wayWithin, fmt.Errorf("its keeper has not answered within %v", wayWithin))
		defer cancel()
		t, folderName, err := inc.h.fleet.Way(ctx, l.kept, l.index, inc.n, to.Node, folder)
		switch {
		case errors.Is(err, fleet.ErrOwn):
			answer(wire.Way{Head: true})
		case err != nil:
			answer(wire.Way{Err: err.Error()})
		default:
			answer(wire.Way{Ticket: wire.JSON(t), Store: cmp.Or(store, folderName)})
		}
	}()
}

// memoryOf is the name at a door of what an agent wants to read, "" if it wants memory of its own.
func (inc *incarnation) memoryOf(to wire.WayTo) string {
	if to.Store == "" {
		return ""
	}
	return mem.Kind
}

// ownWay is the way to the head's own node, where memory is.
func (inc *incarnation) ownWay(l *link, store string) wire.Way {
	number := 0
	if l.kept != nil {
		number = l.kept.Node
	}
	t, err := inc.h.memory.ownDoor(number, l.index, inc.n)
	if err != nil {
		return wire.Way{Err: err.Error()}
	}
	return wire.Way{Ticket: wire.JSON(t), Store: store}
}

// folderOf returns the folder that an agent wants to read on a node, "" if none, or the name there of what is no folder.
// Of stores it may read the one with the images that this life begins with.
func (inc *incarnation) folderOf(to wire.WayTo) (folder, store string, err error) {
	_, moves := inc.readsMoved(to.Store)
	place, known := inc.source(to.Store)
	switch {
	case to.Store == "":
		return "", "", nil
	case moves:
		folder, err = node.Expand(kinds.Place(inc.h.place()).Inner().Folder, to.Node)
	case known && place.Kind == mem.Kind:
		store = mem.Kind
	case !known || kinds.Place(place).Inner().Kind != node.Kind:
		err = fmt.Errorf("no store %q is read from other nodes", to.Store)
	default:
		folder, err = node.Expand(kinds.Place(place).Inner().Folder, to.Node)
	}
	return folder, store, err
}
