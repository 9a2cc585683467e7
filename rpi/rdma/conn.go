package rdma

import (
	"slices"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// state is how far a connection is: see doc.go.
type state uint8

const (
	greeting state = iota
	known
	up
	down
)

// conn is a connection to a peer.
type conn struct {
	m      *Module
	peer   int
	state  state
	why    error // down
	pair   virtual.ID
	theirs virtual.PeerPair
	listed bool

	// What leaves.
	slots    []byte
	region   virtual.ID
	credits  int
	starved  bool // Send has answered Full
	batch    []virtual.Request
	posted   uint64 // requests, with those of batch
	done     uint64 // requests that are over
	slot     uint64 // slots that were used
	freed    uint64
	unsigned int    // requests since the last signalled one
	uses     []use  // by number of the request, modulo its length
	lent     []loan // announced payloads, the oldest first
	messages uint64 // posted
	dones    int    // to be sent
	owed     int    // credits

	// What comes.
	waiting []arrival // messages that are not delivered
	read    read
	got     uint64 // messages

	told told // what the peer has told in an attempt
	said note // the last note
}

// use is what a request holds until it is over.
type use uint8

const (
	useNothing use = iota
	useSlot
	useRead
)

// loan is an announced payload.
type loan struct {
	ref    rpi.Ref    // 0: nobody waits
	region virtual.ID // 0: in the stage
}

// arrival is a message in a buffer.
type arrival struct{ buffer, bytes int }

// read is the payload that is being read.
type read struct {
	begun  bool // Sink.Begin was called, and End was not
	posted bool
	dst    []byte
	region virtual.ID // of dst; 0: in the stage
	key    virtual.RemoteRegion
	number uint64
}

// want begins a connection that a frame waits for.
func (m *Module) want(peer int) {
	c := m.conns[peer]
	if c == nil {
		if m.attempt.quiesced || !m.Reaches(peer) {
			return
		}
		if c = m.connect(peer); c == nil {
			return
		}
		c.tell(noteAsk)
		m.pace.hurry(m)
	}
	c.starved = true
}

// connect makes this side of a connection. If that fails, the peer will be reported.
func (m *Module) connect(peer int) *conn {
	c := &conn{m: m, peer: peer}
	m.conns[peer] = c
	m.all = append(m.all, c)
	if err := c.make(); err != nil {
		c.fail(err)
		return nil
	}
	m.byPair[c.pair] = c
	return c
}

func (c *conn) make() (err error) {
	m := c.m
	c.slots = make([]byte, m.params.depth*m.params.slot)
	c.uses = make([]use, m.pairDepth())
	if c.region, err = m.dev.Register(m.domain, c.slots, 0); err != nil {
		return err
	}
	c.pair, err = m.dev.NewPair(m.domain, virtual.PairConfig{Send: m.queue, Receive: m.queue, Shared: m.shared, SendDepth: m.pairDepth(), Segments: 1, Inline: m.inline})
	if err != nil {
		return err
	}
	return m.grow()
}

// grow has buffers for one more connection.
func (m *Module) grow() error {
	share := m.params.depth + m.params.depth/2 + 2
	m.wanted += share
	n := min(m.wanted, m.params.receives, m.info.Limits.ReceiveDepth) - len(m.buffers)
	if n <= 0 {
		return nil
	}
	memory := make([]byte, n*m.params.slot)
	region, err := m.dev.Register(m.domain, memory, provider.LocalWrite)
	if err != nil {
		return err
	}
	for i := range n {
		off := i * m.params.slot
		m.free = append(m.free, len(m.buffers))
		m.buffers = append(m.buffers, buffer{region, off, memory[off : off+m.params.slot]})
	}
	m.replenish()
	return nil
}

// meet connects to the peer's pair.
func (c *conn) meet(theirs virtual.PeerPair, depth int) {
	if err := c.m.dev.Connect(c.pair, provider.RemoteRead, theirs); err != nil {
		c.fail(err)
		return
	}
	c.theirs, c.credits, c.state = theirs, depth, known
}

// rise says that the connection can be used.
func (c *conn) rise() {
	if c.state == known {
		c.state = up
		c.writable()
	}
}

// writable tells the engine that a frame will be taken, if one was not.
func (c *conn) writable() {
	if c.starved && c.state == up && c.takes() {
		c.starved = false
		c.m.env.Sink.Writable(c.peer)
	}
}

// fail ends the connection at the next Poll.
func (c *conn) fail(why error) {
	if c.state == down {
		return
	}
	c.state, c.why = down, why
	c.m.broken = append(c.m.broken, c)
}

// discard gives back what a failed connection has.
func (m *Module) discard(c *conn) {
	for _, a := range c.waiting {
		m.free = append(m.free, a.buffer)
	}
	c.waiting = nil
	for i := range m.stages {
		if m.stages[i].user == c {
			m.stages[i].user = nil
		}
	}
	m.all = slices.DeleteFunc(m.all, func(o *conn) bool { return o == c })
	m.todo = slices.DeleteFunc(m.todo, func(o *conn) bool { return o == c })
	delete(m.byPair, c.pair)
	c.listed = false
	if m.attempt.frozen || m.attempt.restarted {
		m.attempt.late = append(m.attempt.late, c)
		return
	}
	m.drop(c)
}

// drop closes a connection's objects.
func (m *Module) drop(c *conn) {
	ids := []virtual.ID{c.pair, c.region, c.read.region}
	for _, l := range c.lent {
		ids = append(ids, l.region)
	}
	for _, id := range ids {
		if id != 0 {
			_ = m.dev.Close(id) // it is useless, closed or not
		}
	}
	c.lent, c.read, c.slots = nil, read{}, nil
}
