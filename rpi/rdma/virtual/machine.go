package virtual

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Errors of calls, besides those of package provider.
var (
	ErrQuiet  = errors.New("rdma: a checkpoint is being taken")
	ErrNoSuch = errors.New("rdma: no such object") // closed, or never made
	ErrKey    = errors.New("rdma: the key is void")
)

// Verb is what a provider is to do.
type Verb uint8

// Verbs of actions.
const (
	MakeDomain Verb = iota
	MakeQueue
	MakeShared
	MakeRegion
	MakePair
	Modify
	PostSend    // entries From to To of the log of the pair
	PostReceive // of the pair, or of the shared queue
	Close
)

// Action is one thing for the provider to do. They are done in order.
type Action struct {
	Do       Verb
	ID       ID
	From, To uint64 // PostSend, PostReceive: [From, To)
	Change   provider.Change
}

// Machine is one rank's layer. Methods that change something append to the actions, which Actions takes.
type Machine struct {
	state
	phase   phase
	actions []Action
	numbers map[uint32]*pair // by the device's number
	books   map[ID]bool      // what peers have published in this life; nil before the first restart
	regions map[ID]RemoteRegion
	peers   map[ID]PeerPair
}

// state is what an image has.
type state struct {
	Rank    int
	Life    uint64               // number of restarts
	Made    [KindPair + 1]uint64 // objects of each kind
	Domains map[ID]*domain
	Regions map[ID]*region
	Queues  map[ID]*queue
	Shared  map[ID]*shared
	Pairs   map[ID]*pair
}

type phase uint8

const (
	running phase = iota
	quiescing
	restarting // after Restart, until Resume
)

type domain struct{}

type region struct {
	Domain ID
	Length int
	Access provider.Access
	Void   bool // its memory is gone

	key uint64 // local, real
	own provider.Remote
}

type queue struct {
	Depth   int
	Private []Completion

	markers int // under way
}

type shared struct {
	Domain          ID
	Depth, Segments int
	Log             ring
	Posted          int // not completed
}

// PairConfig is what a pair is made of.
type PairConfig struct {
	Send, Receive           ID // completion queues
	Shared                  ID // or none
	SendDepth, ReceiveDepth int
	Segments, Inline        int
}

type pair struct {
	ID     ID
	Domain ID
	Config PairConfig
	State  provider.State
	Access provider.Access
	Peer   PeerPair
	Sends  ring
	Takes  ring // receives

	Posted, Received uint64          // messages
	Struck           provider.Status // why it is Failed, if something of this side failed

	// What the peer has told in the last checkpoint.
	Final        bool // PeerReceived is known, and grows no more
	PeerReceived uint64
	peerPosted   uint64
	told         bool // peerPosted is known
	peerFailed   bool

	number  uint32
	address []byte
	marker  bool // under way
	died    bool // the peer did not answer while the pair drained
}

// New returns the layer of a rank, at most 1<<24 - 1.
func New(rank int) *Machine {
	m := &Machine{state: state{Rank: rank, Domains: map[ID]*domain{}, Regions: map[ID]*region{}, Queues: map[ID]*queue{},
		Shared: map[ID]*shared{}, Pairs: map[ID]*pair{}}}
	m.forget()
	return m
}

// forget drops all that is of one life.
func (m *Machine) forget() {
	m.numbers = map[uint32]*pair{}
	m.regions = map[ID]RemoteRegion{}
	m.peers = map[ID]PeerPair{}
}

// Actions returns what the provider is to do, and forgets it. The slice is the machine's at the next call.
func (m *Machine) Actions() []Action {
	out := m.actions
	m.actions = m.actions[:0]
	return out
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) made(k Kind, v Verb) (ID, error) {
	if m.phase != running {
		return 0, ErrQuiet
	}
	if m.Made[k] == maxCount || m.Rank >= 1<<rankBits {
		return 0, provider.ErrLimit
	}
	m.Made[k]++
	id := MakeID(m.Rank, k, m.Made[k])
	m.do(Action{Do: v, ID: id})
	return id, nil
}

func nothing(id ID) error { return fmt.Errorf("%w: %s", ErrNoSuch, id) }

// NewDomain makes a protection domain.
func (m *Machine) NewDomain() (ID, error) {
	id, err := m.made(KindDomain, MakeDomain)
	if err == nil {
		m.Domains[id] = &domain{}
	}
	return id, err
}

// NewQueue makes a completion queue.
func (m *Machine) NewQueue(depth int) (ID, error) {
	id, err := m.made(KindQueue, MakeQueue)
	if err == nil {
		m.Queues[id] = &queue{Depth: depth}
	}
	return id, err
}

// NewShared makes a shared receive queue.
func (m *Machine) NewShared(of ID, depth, segments int) (ID, error) {
	if m.Domains[of] == nil {
		return 0, nothing(of)
	}
	id, err := m.made(KindShared, MakeShared)
	if err == nil {
		m.Shared[id] = &shared{Domain: of, Depth: depth, Segments: segments}
	}
	return id, err
}

// NewRegion registers memory of so many bytes.
func (m *Machine) NewRegion(of ID, length int, access provider.Access) (ID, error) {
	if m.Domains[of] == nil {
		return 0, nothing(of)
	}
	id, err := m.made(KindRegion, MakeRegion)
	if err == nil {
		m.Regions[id] = &region{Domain: of, Length: length, Access: access}
	}
	return id, err
}

// NewPair makes a queue pair.
func (m *Machine) NewPair(of ID, c PairConfig) (ID, error) {
	if m.Domains[of] == nil {
		return 0, nothing(of)
	}
	for _, q := range []ID{c.Send, c.Receive} {
		if m.Queues[q] == nil {
			return 0, nothing(q)
		}
	}
	if s := m.Shared[c.Shared]; c.Shared != 0 && (s == nil || s.Domain != of) {
		return 0, nothing(c.Shared)
	}
	id, err := m.made(KindPair, MakePair)
	if err == nil {
		m.Pairs[id] = &pair{ID: id, Domain: of, Config: c}
	}
	return id, err
}

// Registered tells what a region is to the provider.
func (m *Machine) Registered(id ID, localKey uint64, own provider.Remote) {
	m.Regions[id].key, m.Regions[id].own = localKey, own
}

// Unmapped tells that the provider could not register a region again after a restart.
func (m *Machine) Unmapped(id ID) { m.Regions[id].Void = true }

// Paired tells what a pair is to the provider.
func (m *Machine) Paired(id ID, number uint32, address []byte) {
	p := m.Pairs[id]
	p.number, p.address = number, slices.Clone(address)
	m.numbers[number] = p
}

// Close closes an object. ErrBusy: others are made with it.
func (m *Machine) Close(id ID) error {
	if m.phase != running {
		return ErrQuiet
	}
	if !m.has(id) {
		return nothing(id)
	}
	if by := m.user(id); by != 0 {
		return fmt.Errorf("%w: %s by %s", provider.ErrBusy, id, by)
	}
	m.drop(id)
	m.do(Action{Do: Close, ID: id})
	return nil
}

func (m *Machine) has(id ID) bool {
	return m.Domains[id] != nil || m.Regions[id] != nil || m.Queues[id] != nil || m.Shared[id] != nil || m.Pairs[id] != nil
}

// drop forgets an object.
func (m *Machine) drop(id ID) {
	if p := m.Pairs[id]; p != nil {
		if m.numbers[p.number] == p {
			delete(m.numbers, p.number)
		}
		if p.marker {
			m.Queues[p.Config.Send].markers--
		}
	}
	delete(m.Domains, id)
	delete(m.Regions, id)
	delete(m.Queues, id)
	delete(m.Shared, id)
	delete(m.Pairs, id)
}

// user returns an object that was made with another, or none.
func (m *Machine) user(id ID) ID {
	for _, p := range m.pairs() {
		if c := p.Config; p.Domain == id || c.Send == id || c.Receive == id || c.Shared == id {
			return p.ID
		}
	}
	for _, s := range sorted(m.Shared) {
		if m.Shared[s].Domain == id {
			return s
		}
	}
	for _, r := range sorted(m.Regions) {
		if m.Regions[r].Domain == id {
			return r
		}
	}
	return 0
}

// sorted returns IDs in the order in which they were made.
func sorted[T any](objects map[ID]T) []ID { return slices.Sorted(maps.Keys(objects)) }

func (m *Machine) pairs() []*pair {
	var list []*pair
	for _, id := range sorted(m.Pairs) {
		list = append(list, m.Pairs[id])
	}
	return list
}

// Unmade takes back an object that the provider could not make.
func (m *Machine) Unmade(id ID) { m.drop(id) }
