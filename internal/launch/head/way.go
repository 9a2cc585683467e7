package head

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	folder, err := "", json.Unmarshal(m.Data, &to)
	if err == nil {
		folder, err = inc.folderOf(to)
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
		t, store, err := inc.h.fleet.Way(ctx, l.kept, l.index, inc.n, to.Node, folder)
		switch {
		case errors.Is(err, fleet.ErrOwn):
			answer(wire.Way{Head: true})
		case err != nil:
			answer(wire.Way{Err: err.Error()})
		default:
			answer(wire.Way{Ticket: wire.JSON(t), Store: store})
		}
	}()
}

// folderOf returns the folder that an agent wants to read on a node, "" if none. Of stores it may read the one with
// the images that this life begins with.
func (inc *incarnation) folderOf(to wire.WayTo) (string, error) {
	_, moves := inc.readsMoved(to.Store)
	place, known := inc.source(to.Store)
	switch {
	case to.Store == "":
		return "", nil
	case moves:
		return node.Expand(kinds.Place(inc.h.place()).Inner().Folder, to.Node)
	case !known || kinds.Place(place).Inner().Kind != node.Kind:
		return "", fmt.Errorf("no store %q is read from other nodes", to.Store)
	}
	return node.Expand(kinds.Place(place).Inner().Folder, to.Node)
}
