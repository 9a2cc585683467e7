package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// kept is what an agent on another node than the head's gets from its keeper: its ticket, and
// grants of the node's lease. Its stream to the head is a connection that it makes itself.
type kept struct {
	conn   *oob.Conn
	timer  *lease.Timer
	folder string // of programs, the keeper's to remove
	gone   atomic.Bool
}

// homeWithin bounds an agent's call home. Its keeper has just made one.
const homeWithin = 45 * time.Second

// serveKept is the life of an agent whose parent is a keeper.
func serveKept(index int, keeper *oob.Conn) error {
	m, err := keeper.Recv()
	if err == nil && m.Kind != oob.Begin {
		err = fmt.Errorf("%w: kind %d where a ticket was expected", oob.ErrFrame, m.Kind)
	}
	var order wire.Agent
	if err == nil {
		err = json.Unmarshal(m.Data, &order)
	}
	var t rendezvous.Ticket
	if err == nil {
		err = json.Unmarshal(order.Ticket, &t)
	}
	if err != nil {
		return fmt.Errorf("from the keeper: %w", err)
	}
	k := &kept{conn: keeper, folder: order.Folder}
	if k.timer, err = lease.NewTimer(); err != nil {
		return err
	}
	if err := k.timer.Set(order.Until); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), homeWithin)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	// The keeper's end ends a call home, and later the connection.
	watched := make(chan *oob.Conn, 1)
	go k.watch(stop, watched)
	s, err := rendezvous.Call(ctx, t)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	a := newAgent(index, oob.New(s))
	a.kept = k
	watched <- a.conn
	return a.run()
}

var errKeeper = errors.New("the keeper has ended")

// watch hears the keeper: grants, and its end.
func (k *kept) watch(stop context.CancelCauseFunc, watched <-chan *oob.Conn) {
	for {
		m, err := k.conn.Recv()
		if err == nil && m.Kind == oob.Grant {
			err = k.timer.Set(int64(m.A))
		}
		if err != nil {
			k.gone.Store(true)
			stop(errKeeper)
			(<-watched).Close() // as if the head were gone
			return
		}
	}
}

// keeperGone removes what a dead keeper has left.
func (k *kept) keeperGone() error {
	if k == nil || !k.gone.Load() {
		return nil
	}
	return owned.RemoveFolder(k.folder)
}
