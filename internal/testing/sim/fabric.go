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
// sides, batching, messages left in shared cells, boards, direct writes that are done
// at once or under way. See shape for which of it there is.
type fabric struct {
	w     *world
	mods  []*module
	conns map[[2]int]*conn
}

func newFabric(w *world) *fabric {
	f := &fabric{w: w, mods: make([]*module, w.np), conns: make(map[[2]int]*conn)}
	for r := range f.mods {
		f.mods[r] = &module{f: f, rank: r, known: w.places, located: make(map[int]bool), published: make(map[uint64][]byte), out: make(map[int]*conn)}
	}
	f.forgo()
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
	forgone   map[int]bool
	known     []place      // of all ranks, as this one was told
	located   map[int]bool // those whose place it has asked for, and heard
	asked     []int        // those whose place it waits for
	opened    []*conn      // of out: with a cell that may be open
	plates    plates
	before    plates // mutants: those before a restart, and their copies made too early
	early     plates
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

	// Waiting: see caller.
	inCall bool // the rank's caller runs
	looks  int  // polls of it until it finds nothing any more
	armed  bool // it sleeps, and is woken by Ring
	woken  bool
	gone   bool // the incarnation is over: nothing moves
}

var (
	_ rpi.LocalModule = (*module)(nil)
	_ rpi.Asker       = (*module)(nil)
)

var errPeerGone = errors.New("connection reset by peer")

func (m *module) Name() string                      { return "sim" }
func (m *module) Start(env rpi.Env) ([]byte, error) { m.sink = env.Sink; return []byte{1}, nil }
func (m *module) Peers([][]byte) error              { return nil }
func (m *module) EagerLimit() int                   { return m.f.w.plan.eager }
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
	if !w.breaks(openNotShut) {
		c.shut()
	}
	if m.gone {
		return rpi.Full
	}
	if !w.ranks[peer].alive {
		if !w.cut(m.rank, peer) {
			m.down(peer)
		}
		c.refused = true
		return rpi.Full
	}
	m.wake(c)
	if c.state != connOpen {
		c.refused = true
		if c.state == connNone && !m.quiesced {
			c.knock(m)
		}
		return rpi.Full
	}
	if len(c.rest) > 0 || len(c.held) > 0 || c.jam || w.rng.IntN(16) == 0 ||
		w.breaks(linesNotAwaited) && h.Kind == rpi.Line && (w.ranks[m.rank].app.stage == atPoint || w.rng.IntN(16) > 0) {
		c.jam = false
		c.refused = true
		return rpi.Full
	}
	if w.shape.slots && h.Kind == rpi.Eager && h.Flags == 0 && c.roomy(len(payload)) && w.rng.IntN(2) == 0 {
		c.publish(h, payload, false)
		return rpi.Taken
	}
	if more && w.shape.batches && len(c.batch) < 256 {
		c.batch = appendFrame(c.batch, h, payload)
		w.seen.batched++
		return rpi.Taken
	}
	return c.offer(h, payload, ref)
}

func (m *module) Flush() bool {
	for _, c := range m.opened {
		if !m.f.w.breaks(openAtGate) {
			c.shut()
		}
	}
	m.opened = m.opened[:0]
	left := true
	for _, c := range m.sending {
		left = c.flush(m) && left
	}
	return left
}

func (m *module) Poll() bool {
	if m.inCall {
		if m.looks--; m.looks < 0 {
			return false
		}
	}
	if m.gone {
		return false
	}
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
	for len(m.asked) > 0 {
		peer := m.asked[0]
		m.asked = m.asked[1:]
		m.Located(peer, nil)
		moved = true
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

// Located is the answer to a question for a peer's place. It comes with the next Poll, whatever the gate is by then.
func (m *module) Located(peer int, _ []byte) {
	m.located[peer] = true
	if c := m.out[peer]; c != nil && c.refused && c.state == connNone && !m.quiesced {
		c.knock(m)
		m.wake(c)
	}
}

func (m *module) Quiesce() {
	m.quiesced = true
	for _, c := range m.sending { // a caller that is inside when the gate closes gets to its end first
		c.finish()
	}
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
		if (c.state == connSyn || c.state == connAccepted) && !m.f.w.breaks(quietWithHandshake) ||
			len(c.batch)+len(c.rest)+len(c.held) > 0 {
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
			c.knock(m)
			m.wake(c)
		}
	}
}

// Restart forgets all connections: the process is another one.
func (m *module) Restart(env rpi.Env) ([]byte, error) {
	m.sink = env.Sink
	if w := m.f.w; !w.breaks(oldAddress) && !(w.breaks(oldPlaces) && w.switched()) {
		m.known = m.f.w.places
	}
	m.located, m.asked = make(map[int]bool), nil
	m.out = make(map[int]*conn)
	m.sending, m.arriving, m.opened, m.downs, m.told = nil, nil, nil, nil, nil
	m.plates, m.before = plates{}, m.plates
	m.armed, m.woken = false, false
	m.published, m.key, m.gets = make(map[uint64][]byte), 0, nil // keys are used again
	m.quiesced = false
	return []byte{2}, nil
}
