package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// Module is the transport of one rank. It is the rank's rpi.Waiter as well.
type Module struct {
	bell
	env        rpi.Env
	params     params
	now        func() time.Time
	addr       address
	mem        []byte // the whole segment of this rank
	ctl        control
	peers      []peer
	layout     layout
	geo        geometry
	lends      bool // a pool has a large chunk for each rank here: see settleUp
	boardSizes []int
	rings      int // where the next ring of this rank goes
	pool       pool
	direct     directory

	arrivals *uint32 // in the control part
	seen     uint32  // of arrivals
	spots    []spot  // the rings to this rank
	hdr      rpi.Header
	alike    shared.AlikeSink // env.Sink, if it is one
	both     [pairMax]byte    // a message that came in a pair of cells

	dirty   []int // peers that were sent something and not yet woken for it
	owing   []int // peers to be told of room, unless a cell has told them
	told    []int // peers that were told of room and perhaps not woken for it
	busy    []int // peers to which a frame is under way
	starved []int // peers to which Send answered Full
	broken  []int // peers whose failure is not yet reported
	leaving []int // peers that have left or died, while their rings are read
}

// peer is the state of another rank.
type peer struct {
	addr   address
	known  bool // has an address
	reach  bool // its memory is mapped, or can be at its first use: see join
	mapped bool
	down   bool
	why    error // why it is not mapped, or down
	ctl    control
	data   []byte  // its whole segment, read only
	pool   []byte  // its pool, mapped once more, writable though it is never written: see payload
	base   uintptr // where its segment is in its own memory
	bell   *uint32
	out    sender
	in     receiver
	dirty  bool  // in Module.dirty
	told   bool  // in Module.told
	end    error // why it is in Module.leaving: it has left or died
	access access
}

var (
	_ rpi.LocalModule  = (*Module)(nil)
	_ rpi.DirectReader = (*Module)(nil)
	_ rpi.Waiter       = (*Module)(nil)
)

func init() { rpi.Register("shm", func() rpi.Module { return New() }) }

// New returns a module that is not started.
func New() *Module { return &Module{addr: address{fd: -1}, now: time.Now} }

// Name returns "shm".
func (m *Module) Name() string { return "shm" }

// Start makes this rank's segment. The error wraps rpi.ErrUnavailable where this process cannot
// have a segment that others see.
func (m *Module) Start(env rpi.Env) ([]byte, error) {
	if len(env.Secret) == 0 {
		return nil, errors.New("shm: no secret to authenticate peers with")
	}
	if env.Rank < 0 || env.Rank >= env.Size {
		return nil, fmt.Errorf("shm: rank %d of %d", env.Rank, env.Size)
	}
	params, err := parseParams(env.Params)
	if err != nil {
		return nil, err
	}
	m.env, m.params = env, params
	m.alike, _ = env.Sink.(shared.AlikeSink)
	if err := m.open(); err != nil {
		m.release()
		return nil, fmt.Errorf("shm: %w: %w", rpi.ErrUnavailable, err)
	}
	return m.addr.encode(), nil
}

func (m *Module) open() (err error) {
	m.layout = layoutOf(m.env.Size)
	m.addr = address{order: endian.Name, pid: os.Getpid(), fd: -1, size: m.layout.size}
	rand.Read(m.addr.nonce[:])
	if m.addr.machine, err = machine(); err != nil {
		return err
	}
	if m.addr.fd, err = createSegment(m.layout.size); err != nil {
		return err
	}
	if err = m.addr.check(); err != nil {
		return err
	}
	m.mem, err = unix.Mmap(m.addr.fd, 0, m.layout.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	m.ctl = control{m.mem[:m.layout.control], m.env.Size}
	m.ctl.seal(m.proof(m.env.Rank, m.addr.nonce[:]))
	*m.ctl.base() = uint64(uintptr(unsafe.Pointer(&m.mem[0])))
	m.arrivals = m.ctl.arrivals()
	m.rings = m.layout.rings
	m.peers = make([]peer, m.env.Size)
	m.direct.init()
	if m.params.direct > 0 {
		allow()
	}
	m.bell.open(m.ctl.bell())
	return nil
}

// mapAtOnce is the largest number of ranks on a machine that map each other when they start. Most
// pairs of a larger number never talk to each other. A thousand ranks would map three million
// pieces, which takes a minute, and as long again when they end. So each rank then only makes sure
// that it could map a peer, and maps it with the first message to or from it. Tests set another
// number.
var mapAtOnce = 64

// Peers maps the segments of the other ranks of this machine, or prepares for that.
func (m *Module) Peers(addrs [][]byte) error {
	if len(addrs) != m.env.Size {
		return fmt.Errorf("shm: %d addresses for %d ranks", len(addrs), m.env.Size)
	}
	local, meet := 1, m.meet
	if here(addrs) > mapAtOnce {
		meet = m.sight
	}
	for i, p := range addrs {
		if p == nil || i == m.env.Rank {
			continue
		}
		pr := &m.peers[i]
		pr.known = true
		if pr.addr, pr.why = decodeAddress(p); pr.why == nil {
			pr.why = meet(i)
		}
		if pr.why == nil {
			pr.reach = true
			local++
		}
	}
	m.geo = geometryOf(local)
	m.lends = local <= m.geo.large
	m.boardSizes = m.geo.boardSizes()
	m.pool.init(m.mem, m.layout.pool, m.geo)
	return nil
}

// EagerLimit is parameter shm.eager.
func (m *Module) EagerLimit() int { return m.params.eager }

func (m *Module) naming(peer int, err error) error {
	return fmt.Errorf("shm: rank %d: %w", peer, err)
}

// Quiesce has nothing to do: there are no handshakes.
func (m *Module) Quiesce() {}

// Quiet reports whether every accepted byte is where its receiver finds it.
func (m *Module) Quiet() bool { return m.Flush() && len(m.broken) == 0 }

// Continue has nothing to do.
func (m *Module) Continue() {}

// Restart forgets everything and starts again. After a restart from an image of the whole process,
// the mapped memory belongs to this process alone and the descriptor leads nowhere. Where the
// process has lived on, peers still map its old segment until they restart, and their old segments
// are theirs.
func (m *Module) Restart(env rpi.Env) ([]byte, error) {
	m.release()
	return m.Start(env)
}

// Close tells the peers that this rank leaves, and gives all memory back. Peers still find what it
// has sent.
func (m *Module) Close() error {
	for i := range m.peers {
		if p := &m.peers[i]; p.mapped {
			p.ctl.change(m.env.Rank, atomic.LoadUint64(p.ctl.door(m.env.Rank))|doorClosed)
			ring(p.bell)
		}
	}
	m.release()
	return nil
}

func (m *Module) release() {
	m.bell.shut()
	for i := range m.peers {
		m.peers[i].out.open.Size = 0
		m.peers[i].unmap()
	}
	if m.mem != nil {
		unix.Munmap(m.mem)
	}
	if m.addr.fd >= 0 {
		unix.Close(m.addr.fd)
	}
	m.addr.fd, m.mem, m.ctl, m.pool, m.direct = -1, nil, control{}, pool{}, directory{}
	m.peers, m.spots, m.arrivals, m.seen = nil, nil, nil, 0
	m.dirty, m.owing, m.told, m.busy, m.starved, m.broken, m.leaving = nil, nil, nil, nil, nil, nil, nil
}
