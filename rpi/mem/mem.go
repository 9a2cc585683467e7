// Package mem is a transport between ranks that are goroutines of one process. It serves tests, and programs
// under mpi/mpitest. Frames are copied into the receiver's inbox in the order in which they were sent.
//
//	fabric := mem.NewFabric(n)
//	m := fabric.Module(rank)         // give it to an engine; it is its own Waiter
//
// An inbox has room for windowBytes from each peer. A sender that finds no room is told when there is room
// again. So senders meet every answer of rpi.SendResult except Held. The transport is not registered by name,
// because ranks in different processes cannot use it.
package mem

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/rpi"
)

const (
	eagerLimit  = 16 << 10 // small, so that announced messages are common
	windowBytes = 1 << 20
)

var errClosed = errors.New("mem: the peer has closed")

// Fabric connects n ranks.
type Fabric struct{ modules []*Module }

// NewFabric makes the connections of n ranks.
func NewFabric(n int) *Fabric {
	f := &Fabric{modules: make([]*Module, n)}
	for i := range f.modules {
		f.modules[i] = &Module{ChanWaiter: rpi.NewChanWaiter(), fabric: f, rank: i}
		f.modules[i].inbox.init(n)
	}
	return f
}

// Module returns the module of a rank, which is a Waiter as well.
func (f *Fabric) Module(rank int) rpi.Module { return f.modules[rank] }

// Waiter returns where the rank sleeps: its module.
func (f *Fabric) Waiter(rank int) rpi.Waiter { return f.modules[rank] }

// Module is one rank's end of a fabric.
type Module struct {
	*rpi.ChanWaiter
	fabric *Fabric
	rank   int
	sink   rpi.Sink
	addrs  [][]byte
	inbox  inbox
	batch  []item
	open   []int // scratch: peers to be told that there is room
	shared atomic.Pointer[plates]
}

// inbox is what others have sent to a rank.
type inbox struct {
	filled  atomic.Bool // not empty; read without the lock
	mu      sync.Mutex
	items   []item
	queued  []int  // bytes, by sender
	starved []bool // senders that found no room
	armed   bool   // wake the owner when something comes
	closed  bool
	buffers buffers
}

type note uint8

const (
	frame note = iota
	room       // the sender may go on
	down
)

type item struct {
	note note
	from int
	h    rpi.Header
	data []byte
}

func (b *inbox) init(n int) {
	b.queued = make([]int, n)
	b.starved = make([]bool, n)
}

// put adds an item. The caller holds the lock, and put releases it.
func (m *Module) put(it item) {
	b := &m.inbox
	b.items = append(b.items, it)
	b.filled.Store(true)
	wake := b.armed
	b.armed = false
	b.mu.Unlock()
	if wake {
		m.Wake()
	}
}

// Name is "mem".
func (m *Module) Name() string { return "mem" }

// Start begins to deliver; the address only says that the rank is there.
func (m *Module) Start(env rpi.Env) ([]byte, error) {
	m.sink = env.Sink
	return []byte("mem"), nil
}

// Peers tells which ranks are there.
func (m *Module) Peers(addrs [][]byte) error {
	m.addrs = addrs
	return nil
}

// Reaches reports whether the peer has started the same transport.
func (m *Module) Reaches(peer int) bool {
	return peer != m.rank && peer < len(m.addrs) && m.addrs[peer] != nil
}

// EagerLimit is 16 KB.
func (m *Module) EagerLimit() int { return eagerLimit }

// Send copies a frame into the peer's inbox.
func (m *Module) Send(peer int, h *rpi.Header, payload []byte, _ rpi.Ref, _ bool) rpi.SendResult {
	to := m.fabric.modules[peer]
	b := &to.inbox
	size := rpi.HeaderSize + len(payload)
	b.mu.Lock()
	if q := b.queued[m.rank]; b.closed || q > 0 && q+size > windowBytes {
		b.starved[m.rank] = true
		b.mu.Unlock()
		return rpi.Full
	}
	b.queued[m.rank] += size
	it := item{from: m.rank, h: *h}
	if len(payload) > 0 {
		it.data = b.buffers.get(len(payload))
		copy(it.data, payload)
	}
	to.put(it)
	return rpi.Taken
}

// Flush has nothing to do: nothing is held back.
func (m *Module) Flush() bool { return true }

// Poll delivers arrived frames.
func (m *Module) Poll() bool {
	b := &m.inbox
	if !b.filled.Load() {
		return false
	}
	b.mu.Lock()
	b.items, m.batch = m.batch[:0], b.items
	b.filled.Store(false)
	b.mu.Unlock()
	for i := range m.batch {
		m.deliver(&m.batch[i])
	}
	m.giveBack()
	return true
}

func (m *Module) deliver(it *item) {
	switch it.note {
	case room:
		m.sink.Writable(it.from)
	case down:
		m.sink.Down(it.from, errClosed)
	default:
		dst, err := m.sink.Begin(it.from, &it.h)
		if err != nil {
			m.sink.Down(it.from, err)
			return
		}
		copy(dst, it.data)
		m.sink.End(it.from)
	}
}

// giveBack returns the buffers of a delivered batch. It tells senders that found no room.
func (m *Module) giveBack() {
	b := &m.inbox
	m.open = m.open[:0]
	b.mu.Lock()
	for i := range m.batch {
		it := &m.batch[i]
		if it.note == frame {
			b.queued[it.from] -= rpi.HeaderSize + len(it.data)
			b.buffers.put(it.data)
			if b.starved[it.from] && b.queued[it.from] <= windowBytes/2 {
				b.starved[it.from] = false
				m.open = append(m.open, it.from)
			}
		}
		it.data = nil
	}
	b.mu.Unlock()
	for _, peer := range m.open {
		to := m.fabric.modules[peer]
		to.inbox.mu.Lock()
		to.put(item{note: room, from: m.rank})
	}
}

// Arm lets the rank sleep if its inbox is empty.
func (m *Module) Arm() bool {
	m.inbox.mu.Lock()
	defer m.inbox.mu.Unlock()
	m.inbox.armed = len(m.inbox.items) == 0
	return m.inbox.armed
}

// Quiesce has nothing to do: there are no handshakes.
func (m *Module) Quiesce() {}

// Quiet is always true: accepted frames are in the receiver's inbox.
func (m *Module) Quiet() bool { return true }

// Continue has nothing to do.
func (m *Module) Continue() {}

// Restart forgets the content of the inbox and the boards.
func (m *Module) Restart(env rpi.Env) ([]byte, error) {
	b := &m.inbox
	b.mu.Lock()
	b.items = b.items[:0]
	clear(b.queued)
	clear(b.starved)
	b.mu.Unlock()
	m.shared.Store(nil)
	return m.Start(env)
}

// Close tells the peers that this rank is gone.
func (m *Module) Close() error {
	b := &m.inbox
	b.mu.Lock()
	b.closed = true
	b.items = nil
	b.mu.Unlock()
	for i, to := range m.fabric.modules {
		if i == m.rank {
			continue
		}
		to.inbox.mu.Lock()
		if to.inbox.closed {
			to.inbox.mu.Unlock()
			continue
		}
		to.put(item{note: down, from: m.rank})
	}
	return nil
}

// buffers keeps payload buffers of four sizes; the inbox's lock protects it.
type buffers [4][][]byte

var bufferSizes = [4]int{1 << 10, eagerLimit, rpi.MaxFrame, rpi.MaxData}

const keepBuffers = 64

func (p *buffers) get(n int) []byte {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if k := len(p[i]) - 1; k >= 0 {
			b := p[i][k]
			p[i] = p[i][:k]
			return b[:n]
		}
		return make([]byte, n, size)
	}
	return make([]byte, n)
}

func (p *buffers) put(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) != size {
			continue
		}
		if len(p[i]) < keepBuffers {
			p[i] = append(p[i], b)
		}
		return
	}
}
