package jobtest

import (
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/internal/wireup"
)

// wiring is the head's share in the exchange of addresses of an incarnation.
type wiring struct {
	head  *wireup.Head
	n, up int
	all   func() // called when all ranks are up
}

func newWiring(n int, all func()) *wiring { return &wiring{head: wireup.New(n), n: n, all: all} }

// wires takes what a rank says on its way into an incarnation, and reports
// whether it was that.
func (c *Cluster) wires(m *oob.Msg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Incarnation != c.incarnation {
		return false
	}
	w := c.wiring
	var reply *oob.Msg
	var err error
	switch m.Kind {
	case oob.Hello:
		_, err = oob.CheckHello(m)
	case oob.Address:
		reply, err = w.head.Address(int(m.From), m)
	case oob.Reach:
		reply, _, err = w.head.Reach(int(m.From), m)
	case oob.Up:
		if w.up++; w.up == w.n {
			w.all()
		}
	case oob.Failure:
		if r := c.revival; m.B == 0 && r != nil && r.born {
			c.answer(ckpt.Done{ID: r.id, Err: string(m.Data)})
		}
	default:
		return false
	}
	if err != nil {
		panic(err)
	}
	for rank := 0; reply != nil && rank < w.n; rank++ {
		reply.To, reply.Incarnation = int32(rank), c.incarnation
		c.up[rank].put(*reply)
	}
	return true
}

// Transports tells which transports carry the messages.
func (c *Cluster) Transports() wireup.Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wiring.head.Summary()
}
