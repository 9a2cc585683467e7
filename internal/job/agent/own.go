package agent

import (
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// inbox is what the head has sent to an agent on its own node. A grant of the lease counts when it
// arrives, even while the agent is busy: the start of many ranks may take longer than the lease. On
// other nodes the keeper has the lease.
//
// The head grants this lease to its own node. Its ranks must not act when the head has stood still
// for so long that another head may have taken its place. So the kernel ends this agent, and with
// it the ranks.
type inbox struct {
	conn  *oob.Conn
	timer *lease.Timer // nil: nothing was granted, which holds for a job on one node

	mu   sync.Mutex
	cond *sync.Cond
	msgs []oob.Msg // no more than windows allow
	err  error     // what comes after them
}

func newInbox(c *oob.Conn) *inbox {
	b := &inbox{conn: c}
	b.cond = sync.NewCond(&b.mu)
	go b.fill()
	return b
}

func (b *inbox) fill() {
	for {
		m, err := b.conn.Recv()
		if err == nil && m.Kind == oob.Grant {
			if err = b.granted(int64(m.A)); err == nil {
				continue
			}
		}
		b.mu.Lock()
		if err == nil {
			b.msgs = append(b.msgs, m)
		}
		b.err = err
		b.cond.Signal()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (b *inbox) granted(until int64) (err error) {
	if b.timer == nil {
		if b.timer, err = lease.NewTimer(); err != nil {
			return err
		}
	}
	return b.timer.Set(until)
}

// recv is oob.Conn.Recv without grants.
func (b *inbox) recv() (oob.Msg, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.msgs) == 0 && b.err == nil {
		b.cond.Wait()
	}
	if len(b.msgs) == 0 {
		return oob.Msg{}, b.err
	}
	m := b.msgs[0]
	b.msgs = b.msgs[1:]
	return m, nil
}
