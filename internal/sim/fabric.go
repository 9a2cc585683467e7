package sim

import (
	"errors"
	"slices"

	"github.com/gorun-mpi/gorun/rpi"
)

// fabric is the network between the ranks: one one-way connection for each
// ordered pair that ever talked. It is a transport like any other to the
// engine, and has everything that real ones have between them: connections made
// on first use in three steps, small socket buffers, frames cut anywhere on both
// sides, batching, messages left in shared slots, direct writes that are done
// at once or under way.
type fabric struct {
	w     *world
	mods  []*module
	conns map[[2]int]*conn
}

func newFabric(w *world) *fabric {
	f := &fabric{w: w, mods: make([]*module, w.np), conns: make(map[[2]int]*conn)}
	for r := range f.mods {
		f.mods[r] = &module{f: f, rank: r, published: make(map[uint64][]byte), out: make(map[int]*conn)}
	}
	return f
}

// busy returns a connection that is not empty and at rest, nil if all are;
// with only >= 0, of those from or to that rank.
func (f *fabric) busy(only int) *conn {
	for _, m := range f.mods {
		for _, c := range m.sending {
			if !c.atRest() && (only < 0 || c.from == only || c.to == only) {
				return c
			}
		}
		for _, c := range m.arriving {
			if !c.atRest() && (only < 0 || c.from == only || c.to == only) {
				return c
			}
		}
	}
	return nil
}

// module is the transport of one rank (rpi.Module).
type module struct {
	f         *fabric
	rank      int
	sink      rpi.Sink
	out       map[int]*conn
	sending   []*conn // of out: something to do
	arriving  []*conn // of others' out, to us: something to do
	downs     []int   // dead peers not yet reported
	told      []int   // dead peers reported
	published map[uint64][]byte
	key       uint64
	gets      []get // mutant: direct reads under way
	quiesced  bool
	patience  int  // polls for which handshakes may still finish after Quiesce
	deaf      bool // mutant: does not receive
	closed    bool
}

var (
	_ rpi.Module       = (*module)(nil)
	_ rpi.DirectWriter = (*module)(nil)
	_ rpi.DirectReader = dualModule{}
)

var errPeerGone = errors.New("connection reset by peer")

func (m *module) Name() string                      { return "sim" }
func (m *module) Start(env rpi.Env) ([]byte, error) { m.sink = env.Sink; return []byte{1}, nil }
func (m *module) Peers([][]byte) error              { return nil }
func (m *module) Reaches(peer int) bool             { return peer != m.rank }
func (m *module) EagerLimit() int                   { return m.f.w.plan.eager }
func (m *module) Arm() bool                         { return true }
func (m *module) Close() error                      { m.closed = true; return nil }

func (m *module) conn(peer int) *conn {
	c := m.out[peer]
	if c == nil {
		c = &conn{w: m.f.w, from: m.rank, to: peer}
		m.out[peer] = c
	}
	return c
}

// wake puts a connection on the lists of what is to be looked at.
func (m *module) wake(c *conn) {
	if !c.inSending {
		c.inSending = true
		m.sending = append(m.sending, c)
	}
	if !c.inArriving {
		c.inArriving = true
		to := m.f.mods[c.to]
		to.arriving = append(to.arriving, c)
	}
}

func (m *module) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	w := m.f.w
	c := m.conn(peer)
	if !w.ranks[peer].alive {
		m.down(peer)
		c.refused = true
		return rpi.Full
	}
	m.wake(c)
	if c.state != connOpen {
		c.refused = true
		if c.state == connNone && !m.quiesced {
			c.state = connSyn
		}
		return rpi.Full
	}
	if len(c.rest) > 0 || len(c.held) > 0 || c.jam || w.rng.IntN(16) == 0 {
		c.jam = false
		c.refused = true
		return rpi.Full
	}
	if w.plan.slots && h.Kind == rpi.Eager && len(payload) <= 64 && c.idle() && w.rng.IntN(2) == 0 {
		c.publish(h, payload)
		return rpi.Taken
	}
	if more && w.plan.batches && len(c.batch) < 256 {
		c.batch = appendFrame(c.batch, h, payload)
		w.seen.batched++
		return rpi.Taken
	}
	return c.offer(h, payload, ref)
}

func (m *module) Flush() bool {
	left := true
	for _, c := range m.sending {
		left = c.flush(m) && left
	}
	return left
}

func (m *module) Poll() bool {
	moved := false
	for i := 0; i < len(m.sending); i++ {
		moved = m.sending[i].push(m) || moved
	}
	if !m.deaf {
		for i := 0; i < len(m.arriving); i++ {
			moved = m.arriving[i].pull(m) || moved
		}
	}
	for len(m.gets) > 0 && m.f.w.rng.IntN(20) == 0 {
		m.gets[0]()
		m.gets = m.gets[1:]
	}
	for len(m.downs) > 0 {
		peer := m.downs[0]
		m.downs = m.downs[1:]
		m.told = append(m.told, peer)
		if c := m.f.mods[peer].out[m.rank]; c != nil {
			c.lost() // nothing comes after Down
		}
		m.sink.Down(peer, errPeerGone)
		moved = true
	}
	if m.quiesced && m.patience > 0 {
		if m.patience--; m.patience == 0 {
			m.tearDown()
		}
	}
	m.sweep()
	return moved
}

// sweep takes connections with nothing to do off the lists.
func (m *module) sweep() {
	m.sending = slices.DeleteFunc(m.sending, func(c *conn) bool {
		if c.sent() {
			c.inSending = false
		}
		return !c.inSending
	})
	m.arriving = slices.DeleteFunc(m.arriving, func(c *conn) bool {
		if c.received() {
			c.inArriving = false
		}
		return !c.inArriving
	})
}

// down notes that a peer is gone; Poll reports it once.
func (m *module) down(peer int) {
	if !slices.Contains(m.downs, peer) && !slices.Contains(m.told, peer) {
		m.downs = append(m.downs, peer)
	}
}

func (m *module) Quiesce() {
	m.quiesced = true
	for _, c := range m.sending {
		if c.state == connSyn || c.state == connAccepted {
			m.f.w.seen.halfOpen++
		}
	}
	// Handshakes may finish for a while; then they are torn down, for a peer
	// that is ready no longer answers.
	if m.patience = m.f.w.rng.IntN(30); m.patience == 0 {
		m.tearDown()
	}
}

func (m *module) tearDown() {
	for _, c := range m.sending {
		if c.state == connSyn || c.state == connAccepted {
			c.state = connNone
			m.f.w.seen.tornDown++
		}
	}
}

func (m *module) Quiet() bool {
	for _, c := range m.out {
		if (c.state == connSyn || c.state == connAccepted) && !m.f.w.breaks(quietWithHandshake) || len(c.batch)+len(c.rest)+len(c.held) > 0 {
			return false
		}
		if len(c.puts) > 0 && !m.f.w.breaks(quietWithPut) {
			return false
		}
	}
	return true
}

func (m *module) Continue() {
	m.quiesced = false
	for _, c := range m.sending { // who was refused is on this list
		if c.refused && c.state == connNone {
			c.state = connSyn
			m.wake(c)
		}
	}
}

// Restart forgets all connections: the process is another one.
func (m *module) Restart(env rpi.Env) ([]byte, error) {
	m.sink = env.Sink
	m.out = make(map[int]*conn)
	m.sending, m.arriving, m.downs, m.told = nil, nil, nil, nil
	m.published, m.key, m.gets = make(map[uint64][]byte), 0, nil // keys are used again
	m.quiesced = false
	return []byte{2}, nil
}

func (m *module) Publish(_ int, buf []byte) (uint64, bool) {
	if m.f.w.plan.direct == noDirect || m.f.w.rng.IntN(8) == 0 {
		return 0, false
	}
	m.key++
	m.published[m.key] = buf
	return m.key, true
}

func (m *module) Withdraw(_ int, key uint64) { delete(m.published, key) }

func (m *module) Write(peer int, key, off uint64, src []byte) bool {
	w := m.f.w
	c := m.conn(peer)
	if w.rng.IntN(8) == 0 || c.state != connOpen || !w.ranks[peer].alive {
		return false
	}
	w.seen.direct++
	if w.plan.direct == copyAtOnce {
		m.f.land(peer, key, off, src)
		return true
	}
	m.wake(c)
	c.puts = append(c.puts, put{key: key, off: off, data: slices.Clone(src), before: c.wr})
	w.seen.puts++
	c.jam = w.rng.IntN(3) == 0
	return true
}

// land is the moment in which a direct write changes the peer's memory.
func (f *fabric) land(peer int, key, off uint64, src []byte) {
	if buf, ok := f.mods[peer].published[key]; ok && f.w.ranks[peer].alive {
		f.w.touched(peer, "a direct write lands")
		copy(buf[off:], src)
	}
}

// dualModule is a module that also reads published buffers.
type dualModule struct{ *module }

// get is a direct read under way, which no transport may have.
type get func()

// asModule returns what the engine is given.
func (m *module) asModule() rpi.Module {
	if m.f.w.plan.dual {
		return dualModule{m}
	}
	return m
}

func (m dualModule) DirectMin() int { return 128 }

func (m dualModule) Read(peer int, key, off uint64, dst []byte) bool {
	w := m.f.w
	w.touched(m.rank, "memory of a peer is read")
	if w.rng.IntN(8) == 0 || !w.ranks[peer].alive {
		clear(dst) // it may hold anything
		return false
	}
	buf, ok := m.f.mods[peer].published[key]
	if !ok || off+uint64(len(dst)) > uint64(len(buf)) {
		return false
	}
	w.seen.reads++
	land := func() { copy(dst, buf[off:]) }
	if w.breaks(readsInFlight) {
		m.gets = append(m.gets, land)
	} else {
		land()
	}
	return true
}
