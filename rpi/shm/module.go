package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/endian"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// Module is the transport of one rank. It is the rank's rpi.Waiter, too.
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
	lends      bool // a pool has a chunk for each rank, and more: see settleUp
	boardSizes []int
	rings      int // where the next ring of this rank goes
	pool       pool
	direct     directory

	arrivals *uint32 // in the control part
	seen     uint32  // of arrivals
	spots    []spot  // the rings to this rank
	hdr      rpi.Header
	alike    rpi.AlikeSink // env.Sink, if it is one
	both     [pairMax]byte // a message that came in two cells

	dirty   []int // peers who were sent something and not woken for it
	owing   []int // peers who are to be told of room, if no cell has told them
	told    []int // peers who were told of room and may not have been woken for it
	busy    []int // peers with a frame of which a part is still the caller's
	starved []int // peers who were answered Full
	broken  []int // peers who are to be reported
	leaving []int // peers who have left; what is in their rings is read first
}

// peer is what is known of another rank.
type peer struct {
	addr   address
	known  bool // has an address
	mapped bool
	down   bool
	why    error // why it is not mapped, or down
	ctl    control
	data   []byte  // its whole segment, read only
	pool   []byte  // the last part of it once more, writable though nobody writes it: see payload
	base   uintptr // of its segment in its own memory
	bell   *uint32
	out    sender
	in     receiver
	dirty  bool  // in Module.dirty
	told   bool  // in Module.told
	end    error // it has left or died; in Module.leaving
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

// Start makes this rank's segment. The error wraps rpi.ErrUnavailable where a
// process cannot have one that others see.
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
	m.alike, _ = env.Sink.(rpi.AlikeSink)
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

// Peers maps the segments of the other ranks of this machine.
func (m *Module) Peers(addrs [][]byte) error {
	if len(addrs) != m.env.Size {
		return fmt.Errorf("shm: %d addresses for %d ranks", len(addrs), m.env.Size)
	}
	local := 1
	for i, p := range addrs {
		if p == nil || i == m.env.Rank {
			continue
		}
		pr := &m.peers[i]
		pr.known = true
		if pr.addr, pr.why = decodeAddress(p); pr.why == nil {
			pr.why = m.meet(i)
		}
		if pr.why == nil {
			pr.mapped = true
			local++
			if m.params.direct > 0 {
				m.trusted(i) // what is denied is told now
			}
		}
	}
	m.geo = geometryOf(local)
	m.lends = local <= m.geo.large
	m.boardSizes = m.geo.boardSizes()
	m.pool.init(m.mem, m.layout.pool, m.geo)
	return nil
}

// meet maps the segment of a peer.
func (m *Module) meet(rank int) error {
	pr := &m.peers[rank]
	a := &pr.addr
	switch {
	case a.machine != m.addr.machine:
		return fmt.Errorf("it is on another machine, in another container or of another user (%s; this is %s)", a.machine, m.addr.machine)
	case a.order != endian.Name:
		return errors.New("it has another byte order")
	case a.size != m.layout.size:
		return fmt.Errorf("its segment has %d bytes, this rank's %d", a.size, m.layout.size)
	}
	fd, err := openSegment(a.pid, a.fd, a.size)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(fd, 0, m.layout.control, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	pr.ctl = control{mem, m.env.Size}
	if !pr.ctl.sealed(m.proof(rank, a.nonce[:])) {
		pr.unmap()
		return errors.New("what is at its address does not prove to be of this job")
	}
	if pr.data, err = unix.Mmap(fd, 0, a.size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		pr.unmap()
		return os.NewSyscallError("mmap", err)
	}
	if pr.pool, err = unix.Mmap(fd, int64(m.layout.pool), a.size-m.layout.pool, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		pr.unmap()
		return os.NewSyscallError("mmap", err)
	}
	pr.bell, pr.base = pr.ctl.bell(), uintptr(*pr.ctl.base())
	pr.out.taken = pr.ctl.taken(m.env.Rank)
	pr.in.taken = m.ctl.taken(rank)
	return nil
}

func (p *peer) unmap() {
	for _, mem := range [][]byte{p.ctl.mem, p.data, p.pool} {
		if mem != nil {
			unix.Munmap(mem)
		}
	}
	*p = peer{addr: p.addr, known: p.known, down: p.down, why: p.why}
}

// Reaches reports whether the peer's memory is mapped here.
func (m *Module) Reaches(peer int) bool {
	return peer >= 0 && peer < len(m.peers) && m.peers[peer].mapped
}

// Unreached says why Reaches reports false for a peer whose address is known.
func (m *Module) Unreached(peer int) error {
	if p := &m.peers[peer]; p.known && !p.mapped {
		return m.naming(peer, p.why)
	}
	return nil
}

// Forgo makes Reaches report false.
func (m *Module) Forgo(peer int) {
	p := &m.peers[peer]
	p.why = errors.New("it does not reach this rank")
	p.mapped = false
	p.unmap()
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

// Restart forgets everything and starts anew. After a whole-process image what
// is mapped is memory of this process alone, and what the descriptor leads to is
// nothing.
func (m *Module) Restart(env rpi.Env) ([]byte, error) {
	m.release()
	return m.Start(env)
}

// Close tells the peers that this rank leaves, and lets go of all memory. What
// it has sent they still find.
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
