package jobtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/gorun-mpi/gorun/rpi/rdma" // to be restarted over
	_ "github.com/gorun-mpi/gorun/rpi/shm"
	_ "github.com/gorun-mpi/gorun/rpi/tcp"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// A Cluster has these transports beside those of programs:
//
//	mem     in memory, reaches everybody
//	local   in memory, reaches the ranks of the same node, but not those that
//	        parameter "local.shy" lists as "0>2 3>1": rank 2 from rank 0, ...
//	absent  cannot be had
func init() {
	rpi.Register("mem", func() rpi.Module { return &memory{} })
	rpi.Register("local", func() rpi.Module { return &local{} })
	rpi.Register("absent", func() rpi.Module { return absent{} })
}

// fabrics are those in which some ranks have not yet taken their place.
var fabrics = struct {
	sync.Mutex
	all map[string]*fabric
}{all: map[string]*fabric{}}

type fabric struct {
	*mem.Fabric
	missing int
}

// memory is package mem for ranks that find each other by a secret. Each incarnation has a fabric of
// its own.
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

// local is an rpi.LocalModule. It says nothing of its channel to a peer that it does not reach.
type local struct {
	memory
	env  rpi.Env
	shun map[int]error
}

// Name returns "local".
func (m *local) Name() string { return "local" }

// Start is memory's.
func (m *local) Start(env rpi.Env) ([]byte, error) {
	m.begin(&env)
	return m.startIn("local", env)
}

// Restart is Start.
func (m *local) Restart(env rpi.Env) ([]byte, error) { return m.Start(env) }

func (m *local) begin(env *rpi.Env) {
	m.shun = map[int]error{}
	for _, pair := range strings.Fields(env.Params["local.shy"]) {
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

// Reaches is memory's, except for peers that are shunned.
func (m *local) Reaches(peer int) bool { return m.shun[peer] == nil && m.memory.Reaches(peer) }

// Unreached says why not.
func (m *local) Unreached(peer int) error { return m.shun[peer] }

// Forgo shuns a peer that shuns this rank.
func (m *local) Forgo(peer int) { m.shun[peer] = errors.New("it shuns this rank") }

// deaf is the Sink of a local module: it hears nothing of peers that are not reached.
type deaf struct {
	rpi.Sink
	m *local
}

// Begin refuses what no rank may have sent.
func (d deaf) Begin(peer int, h *rpi.Header) ([]byte, error) {
	if !d.m.Reaches(peer) {
		panic(fmt.Sprintf("rank %d sends to rank %d, which does not reach it", peer, d.m.env.Rank))
	}
	return d.Sink.Begin(peer, h)
}

// Down hears nothing of peers that are not reached.
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
