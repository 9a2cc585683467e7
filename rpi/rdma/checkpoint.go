package rdma

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// attempt is one to take a checkpoint.
type attempt struct {
	quiesced  bool
	frozen    bool    // the layer has quiesced: all connections are level
	restarted bool    // and Peers has not followed
	nonce     uint64  // names it in notes
	late      []*conn // to be closed when the layer runs
}

// Quiesce has nothing new begun. What frames of peers ask for is still done.
func (m *Module) Quiesce() {
	if m.attempt.quiesced {
		return
	}
	m.attempt.quiesced, m.attempt.nonce = true, rand.Uint64()|1
	for _, c := range m.all {
		c.told.idle = false
	}
	m.pace.hurry(m)
	m.speak()
}

// Quiet reports whether all connections are level and the layer is quiet. It freezes the layer.
func (m *Module) Quiet() bool {
	if m.nfound > 0 || len(m.broken) > 0 || m.dev == nil {
		return false
	}
	if !m.attempt.frozen {
		m.hear()
		for _, c := range m.all {
			if c.state == up && !c.level() || c.state < up && len(c.waiting) > 0 {
				return false
			}
		}
		m.freeze()
	}
	quiet, err := m.dev.Quiet()
	if dead := (*virtual.PeerError)(nil); errors.As(err, &dead) {
		if c := m.byPair[dead.Pair]; c != nil {
			c.fail(err)
		}
		return false
	}
	if err != nil {
		m.failAll(fmt.Errorf("the device: %w", err))
	}
	return quiet && err == nil
}

// freeze begins the layer's part. It gets the state on which both sides agree already.
func (m *Module) freeze() {
	m.attempt.frozen = true
	m.dev.Quiesce()
	for _, c := range m.all {
		var counts []virtual.Count // none: nothing was ever sent
		if c.state == up {
			counts = append(counts, virtual.Count{From: c.theirs.Pair, To: c.pair, Posted: c.told.posted, Received: c.told.received, Final: true})
		}
		m.dev.Tell(c.peer, counts)
	}
}

// Continue goes on with what Quiesce has stopped.
func (m *Module) Continue() {
	if m.attempt.frozen {
		m.dev.Continue()
	}
	late := m.attempt.late
	m.attempt = attempt{restarted: m.attempt.restarted}
	for _, c := range late {
		m.drop(c)
	}
	for _, c := range m.all {
		m.list(c)
		c.writable()
	}
	m.replenish()
	m.again()
}

// Restart opens a device, and makes the layer recreate its pairs. Links of those go into the
// address.
func (m *Module) Restart(env rpi.Env) ([]byte, error) {
	if m.dev == nil {
		m.release()
		return m.Start(env)
	}
	alive := m.ctl >= 0 && portOf(m.ctl) != 0 && portOf(m.ctl) == m.own.port
	m.shut()
	if alive {
		_ = m.dev.Real().Close() // or it was closed by a Restart that was given up
	} else {
		m.dev.Real().Abandon()
	}
	before := m.params
	size := m.env.Size
	err := m.enter(env)
	var real provider.Device
	if err == nil {
		real, err = m.openDevice()
	}
	if err == nil {
		same := before.depth == m.params.depth && before.slot == m.params.slot && before.receives == m.params.receives && size == env.Size
		err = m.goOn(real, same)
	}
	if err == nil {
		err = m.listen()
	}
	if err != nil {
		m.shut()
		return nil, err
	}
	m.ready()
	return m.own.encode(), nil
}

// goOn lets connections go on over a device, or recreates all if that is not possible.
func (m *Module) goOn(real provider.Device, same bool) error {
	m.peers, m.nfound, m.broken, m.pace = nil, 0, nil, pace{}
	m.attempt = attempt{restarted: true, late: m.attempt.late}
	keep := m.all[:0:0]
	for _, c := range m.all {
		c.listed, c.told, c.said = false, told{}, note{}
		if c.state == up {
			c.done, c.freed, c.unsigned = c.posted, c.slot, 0 // the layer posts nothing again: all had arrived
			keep = append(keep, c)
		} else {
			m.conns[c.peer] = nil
			delete(m.byPair, c.pair)
			m.attempt.late = append(m.attempt.late, c)
		}
	}
	m.all, m.todo = keep, nil
	if same && m.dev.Restart(real) == nil {
		return nil
	}
	m.attempt = attempt{}
	if same { // the device allows less than the one before, and has half of the layer's objects
		_ = real.Close()
		var err error
		if real, err = m.openDevice(); err != nil {
			return err
		}
	}
	return m.begin(real)
}

// links returns what an address says of the connections that have come through a restart.
func (m *Module) links() (list []link) {
	if !m.attempt.restarted || len(m.all) > linksMax {
		return nil
	}
	for _, c := range m.all {
		if own, err := m.dev.Pair(c.pair); err == nil && len(own.Address) <= realMax {
			list = append(list, link{to: c.peer, partner: c.theirs.Pair, own: own})
		}
	}
	return list
}

// resume has those connections go on that both ends have published.
func (m *Module) resume() error {
	if !m.attempt.restarted {
		return nil
	}
	m.attempt.restarted = false
	var book virtual.Book
	keep := m.all[:0:0]
	for _, c := range m.all {
		if theirs, ok := m.linked(c); ok {
			c.theirs = theirs
			book.Pairs = append(book.Pairs, theirs)
			keep = append(keep, c)
		} else {
			m.conns[c.peer] = nil
			delete(m.byPair, c.pair)
			m.attempt.late = append(m.attempt.late, c)
		}
	}
	m.all = keep
	m.dev.Learn(book)
	if err := m.dev.Resume(); err != nil {
		return fmt.Errorf("rdma: connections do not go on over %s, device %s: %w", m.kind, m.info.Name, err)
	}
	for _, c := range m.attempt.late {
		m.drop(c)
	}
	m.attempt.late = nil
	return nil
}

// linked returns the other end of a connection, if both ends have published it.
func (m *Module) linked(c *conn) (theirs virtual.PeerPair, ok bool) {
	mine := false
	for _, l := range m.own.links {
		mine = mine || l.own.Pair == c.pair
	}
	for _, l := range m.peers[c.peer].links {
		if l.to == m.env.Rank && l.partner == c.pair && l.own.Pair == c.theirs.Pair {
			l.own.Life = m.dev.Life
			return l.own, mine
		}
	}
	return theirs, false
}
