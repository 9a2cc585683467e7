package sim

import (
	"errors"
	"math/rand/v2"

	"github.com/gorun-mpi/gorun/rpi"
)

// shape is what the transport of an incarnation is like: how much it holds and which
// of the optional abilities of transports it has. A seed draws the first one; whole
// processes may come back over another.
type shape struct {
	window  int  // bytes that a connection holds
	batches bool // small messages are held back
	slots   bool // some whole messages are left in shared memory
	whole   bool // frames of which all bytes are there are delivered at one go
	short   bool // shared.Shortcut
	boards  int  // of each rank (shared.Boards); 0: there are none
	turned  int  // which board has which size
	nodes   int  // beyond one, it reaches only the node's ranks, and a plain transport the others
	forgoes int  // one of so many pairs of a node uses the plain one, too; 0: none
	direct  directMode
	dual    bool // it reads published buffers, too
	landing int  // a direct write under way lands in one of so many polls
}

// directMode says how the transport writes into published buffers.
type directMode uint8

const (
	noDirect    directMode = iota
	copyAtOnce             // shared memory: done on return
	putInFlight            // remote: lands later, in order with what is sent after it
)

func newShape(rng *rand.Rand, p *plan) shape {
	one := func(n int) bool { return rng.IntN(n) == 0 }
	s := shape{window: []int{60, 200, 1000, 1 << 16}[rng.IntN(4)], nodes: 1}
	s.batches, s.slots, s.direct = one(2), one(2), directMode(rng.IntN(3))
	s.dual = s.direct != noDirect && one(2)
	s.landing = []int{2, 12, 80, 400}[rng.IntN(4)]
	if p.huge {
		s.window = 1 << 18
	}
	s.whole, s.short = one(2), one(2)
	if one(2) || p.teams > 0 && p.shape.window == 0 { // the first one of those that need them
		s.boards, s.turned = 1+rng.IntN(mostBoards), rng.IntN(mostBoards)
	}
	if one(4) && p.np > 1 {
		s.nodes = 1 + rng.IntN(min(p.np, 3))
	}
	if one(10) {
		s.forgoes = 2 + rng.IntN(8)
	}
	return s
}

// host is where a rank is, as far as the transport goes.
func (w *world) host(rank int) int { return rank * w.shape.nodes / w.np }

// modules returns what the engine is given: a type that has the abilities of the
// shape and no others, and a plain one beside it if that does not reach everybody.
func (m *module) modules() []rpi.Module {
	var (
		s     = &m.f.w.shape
		short = shortcut{m}
		board = boards{m}
		read  = reader{m}
		near  rpi.Module
	)
	switch dual := s.dual; {
	case s.short && s.boards > 0 && dual:
		near = fullModule{m, short, board, read}
	case s.short && s.boards > 0:
		near = struct {
			*module
			shortcut
			boards
		}{m, short, board}
	case s.short && dual:
		near = struct {
			*module
			shortcut
			reader
		}{m, short, read}
	case s.boards > 0 && dual:
		near = struct {
			*module
			boards
			reader
		}{m, board, read}
	case s.short:
		near = struct {
			*module
			shortcut
		}{m, short}
	case s.boards > 0:
		near = struct {
			*module
			boards
		}{m, board}
	case dual:
		near = struct {
			*module
			reader
		}{m, read}
	default:
		near = m
	}
	if s.nodes == 1 && s.forgoes == 0 {
		return []rpi.Module{near}
	}
	return []rpi.Module{near, plain{m}}
}

// fullModule implements all abilities that there are: see TestTwins.
type fullModule struct {
	*module
	shortcut
	boards
	reader
}

// plain is the transport to ranks that the other one does not reach. Both use the same
// connections, of which the other one alone keeps account at a checkpoint.
type plain struct{ m *module }

func (p plain) Name() string                    { return "plain" }
func (p plain) Start(rpi.Env) ([]byte, error)   { return []byte{1}, nil }
func (p plain) Peers([][]byte) error            { return nil }
func (p plain) Reaches(peer int) bool           { return peer != p.m.rank }
func (p plain) EagerLimit() int                 { return p.m.EagerLimit() }
func (p plain) Flush() bool                     { return p.m.Flush() }
func (p plain) Poll() bool                      { return p.m.Poll() }
func (p plain) Arm() bool                       { return true }
func (p plain) Quiesce()                        {}
func (p plain) Quiet() bool                     { return true }
func (p plain) Continue()                       {}
func (p plain) Restart(rpi.Env) ([]byte, error) { return []byte{2}, nil }
func (p plain) Close() error                    { return nil }
func (p plain) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	return p.m.Send(peer, h, payload, ref, more)
}

var errElsewhere = errors.New("it is on another node")

// Reaches reports whether the peer is on this rank's node, and not forgone.
func (m *module) Reaches(peer int) bool { return m.Unreached(peer) == nil }

// Unreached says why Reaches does not.
func (m *module) Unreached(peer int) error {
	if peer == m.rank || m.forgone[peer] || m.f.w.host(peer) != m.f.w.host(m.rank) {
		return errElsewhere
	}
	return nil
}

// Forgo makes the other transport carry what is for the peer.
func (m *module) Forgo(peer int) { m.forgone[peer] = true }

// forgo chooses whom each rank forgoes although it reaches them.
func (f *fabric) forgo() {
	w := f.w
	for _, m := range f.mods {
		m.forgone = make(map[int]bool)
	}
	for a := range w.np {
		for b := range a {
			if w.shape.forgoes > 0 && w.rng.IntN(w.shape.forgoes) == 0 {
				f.mods[a].Forgo(b)
				f.mods[b].Forgo(a)
			}
		}
	}
}
