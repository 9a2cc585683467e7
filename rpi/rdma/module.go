package rdma

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	_ "github.com/gorun-mpi/gorun/rpi/rdma/rxe"
	_ "github.com/gorun-mpi/gorun/rpi/rdma/soft" // there is always one provider
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// Module is the transport of one rank. It is the rank's rpi.Waiter as well.
type Module struct {
	bell
	env    rpi.Env
	params params
	from   provider.Provider // nil: the parameters tell
	kind   string            // the provider's name
	info   provider.Info
	dev    *layer
	own    address
	peers  []address // by rank; no port: not reached

	domain, queue, shared virtual.ID
	inline                int // longest message that is sent inline
	buffers               []buffer
	free                  []int // buffers to be posted
	wanted                int   // buffers that connections want

	conns  []*conn // by rank
	byPair map[virtual.ID]*conn
	all    []*conn // those that there are
	todo   []*conn // have something to do at the next Poll
	doing  []*conn // what Poll has of it
	broken []*conn // whose failure is not reported
	stages [2]stage

	found    [64]virtual.Completion
	nfound   int // that Arm has found
	receives []virtual.Receive
	polling  bool
	polls    uint
	pace     pace // of notes
	attempt  attempt
	came     []*conn // through a restart, until Peers
}

// buffer is one that messages are received into.
type buffer struct {
	region virtual.ID
	off    int
	memory []byte
}

// stage is a buffer for payloads that cannot be registered: of frames that leave, and of frames that come.
type stage struct {
	region virtual.ID // 0: not made yet
	memory []byte
	user   *conn
}

const (
	outgoing = iota
	incoming
)

var _ rpi.Waiter = (*Module)(nil)

func init() { rpi.Register("rdma", func() rpi.Module { return New() }) }

// New returns a module that is not started. Its parameters tell which provider it uses.
func New() *Module { return Over(nil) }

// Over returns a module over a provider, and ignores the parameters' choice.
func Over(p provider.Provider) *Module {
	m := &Module{from: p}
	m.init()
	return m
}

// Name returns "rdma".
func (m *Module) Name() string { return "rdma" }

// About names the device and its provider.
func (m *Module) About() string { return fmt.Sprintf("device %s of provider %s", m.info.Name, m.kind) }

// Start opens a device. The error wraps rpi.ErrUnavailable if there is none.
func (m *Module) Start(env rpi.Env) ([]byte, error) {
	if err := m.enter(env); err != nil {
		return nil, err
	}
	real, err := m.openDevice()
	if err == nil {
		err = m.begin(real)
	}
	if err == nil {
		err = m.listen()
	}
	if err != nil {
		m.release()
		return nil, err
	}
	m.ready()
	return m.own.encode(), nil
}

// enter takes the values for the module.
func (m *Module) enter(env rpi.Env) (err error) {
	if len(env.Secret) == 0 {
		return errors.New("rdma: no secret to authenticate peers with")
	}
	if env.Rank < 0 || env.Rank >= env.Size {
		return fmt.Errorf("rdma: rank %d of %d", env.Rank, env.Size)
	}
	m.params, err = parseParams(env.Params)
	m.env = env
	return err
}

// begin makes what there is before the first connection.
func (m *Module) begin(real provider.Device) error {
	m.dev = newLayer(m.env.Rank, real)
	m.conns, m.byPair = make([]*conn, m.env.Size), map[virtual.ID]*conn{}
	m.all, m.todo, m.broken = nil, nil, nil
	m.buffers, m.free, m.wanted, m.stages, m.nfound = nil, nil, 0, [2]stage{}, 0
	limits := m.dev.Real().Info().Limits
	var err error
	make := func(id *virtual.ID, f func() (virtual.ID, error)) {
		if err == nil {
			*id, err = f()
		}
	}
	depth := min(m.params.receives+m.env.Size*m.pairDepth(), limits.Completions-64)
	make(&m.domain, m.dev.NewDomain)
	make(&m.queue, func() (virtual.ID, error) { return m.dev.NewQueue(depth) })
	make(&m.shared, func() (virtual.ID, error) {
		return m.dev.NewShared(m.domain, min(m.params.receives, limits.ReceiveDepth), 1)
	})
	if err != nil {
		return fmt.Errorf("rdma: %s, device %s: %w", m.kind, m.info.Name, err)
	}
	return nil
}

// pairDepth is how many requests of a pair may be under way: frames, what answers the peer's, a read, and what closes them.
func (m *Module) pairDepth() int { return 2*m.params.depth + 4 }

// Peers learns which ranks this one reaches, and goes on with the connections that have come through a restart.
func (m *Module) Peers(addrs [][]byte) error {
	if len(addrs) != m.env.Size {
		return fmt.Errorf("rdma: %d addresses for %d ranks", len(addrs), m.env.Size)
	}
	m.peers = make([]address, m.env.Size)
	for i, p := range addrs {
		if p == nil || i == m.env.Rank {
			continue
		}
		a, err := decodeAddress(p)
		if err != nil {
			return m.naming(i, err)
		}
		if a.order != endian.Name {
			return m.naming(i, errors.New("its machine has another byte order, which a running job cannot mix"))
		}
		if a.provider == m.own.provider && a.network == m.own.network {
			m.peers[i] = a
		}
	}
	return m.resume()
}

// Reaches reports whether the peer has a device of the same provider in the same network.
func (m *Module) Reaches(peer int) bool {
	return peer >= 0 && peer < len(m.peers) && m.peers[peer].port != 0
}

// EagerLimit is parameter rdma.eager.
func (m *Module) EagerLimit() int { return m.params.eager }

// Send copies a frame into a slot, or announces it.
func (m *Module) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	c := m.conns[peer]
	if c == nil || c.state != up {
		m.want(peer)
		return rpi.Full
	}
	if !c.takes() {
		c.starved = true
		return rpi.Full
	}
	result := rpi.Taken
	if payloadAt+len(payload) <= m.params.slot {
		c.frame(h, payload)
	} else if result = c.announce(h, payload, ref); result == rpi.Full {
		c.starved = true
		return result
	}
	if more && len(c.batch) < m.params.depth/2 {
		m.list(c) // Flush or Poll rings
	} else {
		c.ring()
	}
	return result
}

// Flush posts messages that were held back.
func (m *Module) Flush() bool {
	left := true
	for _, c := range m.todo {
		c.ring()
		left = left && c.idle()
	}
	return left
}

// list has Poll look at a connection.
func (m *Module) list(c *conn) {
	if !c.listed {
		c.listed = true
		m.todo = append(m.todo, c)
	}
}

// Poll makes progress on everything.
func (m *Module) Poll() (moved bool) {
	if m.polling || m.dev == nil { // from an upcall
		return false
	}
	m.polling = true
	m.polls++
	if m.noticed.Load() {
		_ = m.dev.Acknowledge(m.queue) // the descriptor stays readable, and is looked at again
		m.noticed.Store(false)
	}
	m.hear()
	moved = m.complete()
	m.todo, m.doing = m.doing[:0], m.todo
	for _, c := range m.doing {
		c.listed = false
		moved = c.work() || moved
	}
	m.replenish()
	moved = m.report() || moved
	m.polling = false
	return moved
}

// complete takes completions.
func (m *Module) complete() (moved bool) {
	for {
		n := m.nfound
		m.nfound = 0
		if n == 0 {
			var err error
			if n, err = m.dev.Poll(m.queue, m.found[:]); err != nil {
				m.failAll(fmt.Errorf("the device: %w", err))
				return true
			}
		}
		if n == 0 {
			return moved
		}
		for i := range m.found[:n] {
			m.completed(&m.found[i])
		}
		moved = true
	}
}

// completed takes one completion.
func (m *Module) completed(done *virtual.Completion) {
	c := m.byPair[done.Pair]
	received := done.Opcode == provider.Receive || done.Opcode == provider.ReceiveWrite
	switch {
	case done.Status != provider.Success && c == nil:
	case done.Status != provider.Success:
		if done.ID&bufferBit != 0 {
			m.free = append(m.free, int(done.ID&^bufferBit))
		}
		c.fail(done.Status.Err())
	case received && c == nil:
		m.free = append(m.free, int(done.ID&^bufferBit))
	case received:
		c.came(int(done.ID&^bufferBit), done.Bytes)
	case c != nil:
		c.sent(done.ID)
	}
}

// replenish posts buffers.
func (m *Module) replenish() {
	if len(m.free) == 0 || m.attempt.frozen {
		return
	}
	m.receives = m.receives[:0]
	for _, i := range m.free {
		b := &m.buffers[i]
		m.receives = append(m.receives, virtual.Receive{ID: uint64(i) | bufferBit, Segments: []virtual.Segment{{Region: b.region, Off: b.off, Len: len(b.memory)}}})
	}
	n, err := m.dev.Receive(m.shared, m.receives)
	m.free = m.free[:copy(m.free, m.free[n:])]
	if err != nil && !errors.Is(err, provider.ErrFull) {
		m.failAll(err)
	}
}

// bufferBit tells receives from requests.
const bufferBit = 1 << 62

// report tells the engine of connections that have failed.
func (m *Module) report() (moved bool) {
	for len(m.broken) > 0 {
		c := m.broken[0]
		m.broken = m.broken[1:]
		m.discard(c)
		m.env.Sink.Down(c.peer, m.naming(c.peer, c.why))
		moved = true
	}
	return moved
}

func (m *Module) failAll(err error) {
	for _, c := range slices.Clone(m.all) {
		c.fail(err)
	}
}

func (m *Module) naming(peer int, err error) error { return fmt.Errorf("rdma: rank %d: %w", peer, err) }

// Arm allows waiting unless there is something to do.
func (m *Module) Arm() bool {
	for _, c := range m.todo {
		c.ring()
	}
	if m.heard.Load() || m.noticed.Load() || len(m.broken) > 0 || m.busy() {
		return false
	}
	if err := m.dev.Arm(m.queue, false); err != nil {
		m.failAll(err)
		return false
	}
	if m.attempt.frozen {
		return true // what comes is the layer's, and Quiet looks for it
	}
	n, err := m.dev.Poll(m.queue, m.found[:])
	m.nfound = n
	return n == 0 && err == nil
}

// busy reports whether a connection can go on at once.
func (m *Module) busy() bool {
	for _, c := range m.todo {
		if !c.waits() {
			return true
		}
	}
	return false
}

// Close ends all connections.
func (m *Module) Close() error {
	if m.dev != nil && !m.attempt.frozen {
		for _, c := range m.all {
			_ = m.dev.Close(c.pair) // tells the peer, where the provider can; all is closed below
		}
	}
	m.release()
	return nil
}

// release gives all back.
func (m *Module) release() {
	m.shut()
	if m.dev != nil {
		_ = m.dev.Real().Close() // nothing is to be lost any more
	}
	m.dev, m.conns, m.byPair, m.all, m.todo, m.broken, m.peers = nil, nil, nil, nil, nil, nil, nil
	m.buffers, m.free, m.stages, m.nfound, m.attempt = nil, nil, [2]stage{}, 0, attempt{}
}
