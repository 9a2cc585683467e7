package jobtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/gorun-mpi/gorun/rpi/shm" // to be restarted over
	_ "github.com/gorun-mpi/gorun/rpi/tcp"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// The transports that a Cluster has beside those of programs:
//
//	mem     in memory, reaches everybody
//	near    in memory, reaches the ranks of the same node, but not those that
//	        parameter "near.shy" lists as "0>2 3>1": rank 2 from rank 0, ...
//	absent  cannot be had
func init() {
	rpi.Register("mem", func() rpi.Module { return &memory{} })
	rpi.Register("near", func() rpi.Module { return &near{} })
	rpi.Register("absent", func() rpi.Module { return absent{} })
}

// fabrics are those in which not all ranks have taken their place yet.
var fabrics = struct {
	sync.Mutex
	all map[string]*fabric
}{all: map[string]*fabric{}}

type fabric struct {
	*mem.Fabric
	missing int
}

// memory is package mem for those who find each other by a secret. Each
// incarnation has a fabric of its own.
type memory struct {
	*mem.Module
	waiter atomic.Pointer[rpi.ChanWaiter] // the Module's; Wake may come at any time
}

// Start takes this rank's place in the memory of its incarnation.
func (m *memory) Start(env rpi.Env) ([]byte, error) { return m.startIn("mem", env) }

// Restart is Start.
func (m *memory) Restart(env rpi.Env) ([]byte, error) { return m.startIn("mem", env) }

// Wait is rpi.Waiter's.
func (m *memory) Wait(d time.Duration) { m.waiter.Load().Wait(d) }

// Wake is rpi.Waiter's.
func (m *memory) Wake() { m.waiter.Load().Wake() }

func (m *memory) startIn(name string, env rpi.Env) ([]byte, error) {
	key := fmt.Sprintf("%s %s %d", name, env.Secret, env.Incarnation)
	fabrics.Lock()
	defer fabrics.Unlock()
	f := fabrics.all[key]
	if f == nil {
		f = &fabric{mem.NewFabric(env.Size), env.Size}
		fabrics.all[key] = f
	}
	if f.missing--; f.missing == 0 {
		delete(fabrics.all, key)
	}
	m.Module = f.Module(env.Rank).(*mem.Module)
	m.waiter.Store(m.Module.ChanWaiter)
	return m.Module.Start(env)
}

// near is a rpi.LocalModule. Its channel to a peer that it does not reach is
// never heard of.
type near struct {
	memory
	env  rpi.Env
	shun map[int]error
}

// Name returns "near".
func (m *near) Name() string { return "near" }

// Start is memory's.
func (m *near) Start(env rpi.Env) ([]byte, error) {
	m.begin(&env)
	return m.startIn("near", env)
}

// Restart is Start.
func (m *near) Restart(env rpi.Env) ([]byte, error) { return m.Start(env) }

func (m *near) begin(env *rpi.Env) {
	m.shun = map[int]error{}
	for _, pair := range strings.Fields(env.Params["near.shy"]) {
		var from, to int
		if _, err := fmt.Sscanf(pair, "%d>%d", &from, &to); err != nil {
			panic(err)
		}
		if from == env.Rank {
			m.shun[to] = errors.New("it is shy")
		}
	}
	env.Sink = deaf{env.Sink, m}
	m.env = *env
}

// Reaches is memory's but for peers that are shunned.
func (m *near) Reaches(peer int) bool { return m.shun[peer] == nil && m.memory.Reaches(peer) }

// Unreached says why not.
func (m *near) Unreached(peer int) error { return m.shun[peer] }

// Forgo shuns a peer that shuns this rank.
func (m *near) Forgo(peer int) { m.shun[peer] = errors.New("it shuns this rank") }

// deaf is the Sink of a near: what is not reached is not heard.
type deaf struct {
	rpi.Sink
	m *near
}

// Begin refuses what no rank may have sent.
func (d deaf) Begin(peer int, h *rpi.Header) ([]byte, error) {
	if !d.m.Reaches(peer) {
		panic(fmt.Sprintf("rank %d sends to rank %d, which does not reach it", peer, d.m.env.Rank))
	}
	return d.Sink.Begin(peer, h)
}

// Down is not heard of peers that are not reached.
func (d deaf) Down(peer int, err error) {
	if d.m.Reaches(peer) {
		d.Sink.Down(peer, err)
	}
}

// absent is a transport that cannot be had.
type absent struct{ rpi.Module }

// Name returns "absent".
func (absent) Name() string { return "absent" }

// Start fails.
func (absent) Start(rpi.Env) ([]byte, error) {
	return nil, fmt.Errorf("%w: no such memory", rpi.ErrUnavailable)
}
