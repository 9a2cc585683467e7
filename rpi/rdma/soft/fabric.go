package soft

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"golang.org/x/sys/unix"
)

// Faults is what a Fabric does to packets and completions, in percent.
type Faults struct {
	Lost, Twice, Late, Overtaken int
	Completions                  int  // polls that see fewer completions than there are
	Order                        bool // completions of different queues in any order
	MTU                          int  // 0: 4096
}

// Fabric connects devices of one process. It is a provider. If one goroutine does everything, the same seed does the same.
type Fabric struct {
	mu     sync.Mutex
	faults Faults
	rng    *rand.Rand
	ports  map[uint32]*port
	opened uint32
	clock  int64 // steps: each look for a packet is one
}

// NewFabric returns a network of its own.
func NewFabric(seed uint64, faults Faults) *Fabric {
	if faults.MTU == 0 {
		faults.MTU = 4096
	}
	return &Fabric{faults: faults, rng: rand.New(rand.NewPCG(seed, 0x50f7)), ports: map[uint32]*port{}}
}

// Name is "fabric".
func (f *Fabric) Name() string { return "fabric" }

// List returns the one device that there is.
func (f *Fabric) List() ([]provider.Info, error) { return []provider.Info{f.info()}, nil }

func (f *Fabric) info() provider.Info {
	return provider.Info{Name: "fabric", Detail: "within this process", Network: fmt.Sprintf("%p", f)}
}

// Open opens another device.
func (f *Fabric) Open(name string) (provider.Device, error) {
	if name != "" && name != "fabric" {
		return nil, fmt.Errorf("soft: no device %q", name)
	}
	evfd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("soft: %w", err)
	}
	f.mu.Lock()
	f.opened++
	p := &port{fabric: f, id: f.opened, evfd: evfd}
	f.ports[p.id] = p
	f.mu.Unlock()
	return newDevice(p, f.info(), f.faults.MTU), nil
}

// port is a device's place in a fabric.
type port struct {
	fabric *Fabric
	id     uint32
	inbox  [][]byte
	gone   [][]byte // addresses without a device
	evfd   int
}

func (p *port) address() []byte { return binary.LittleEndian.AppendUint32(nil, p.id) }

func (f *Fabric) happens(percent int) bool { return percent > 0 && f.rng.IntN(100) < percent }

func (p *port) send(to []byte, b []byte) {
	f := p.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.happens(f.faults.Lost) {
		return
	}
	if len(to) != 4 {
		return
	}
	dst := f.ports[binary.LittleEndian.Uint32(to)]
	if dst == nil {
		p.gone = append(p.gone, slices.Clone(to))
		return
	}
	copies := 1
	if f.happens(f.faults.Twice) {
		copies = 2
	}
	for range copies {
		at := len(dst.inbox)
		if at > 0 && f.happens(f.faults.Overtaken) {
			at = f.rng.IntN(at)
		}
		dst.inbox = slices.Insert(dst.inbox, at, slices.Clone(b))
	}
	dst.ring()
}

func (p *port) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(p.evfd, one[:]) // it can only be full, and is readable then
}

func (p *port) receive(b []byte) (int, bool) {
	f := p.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	if len(p.inbox) == 0 {
		var buf [8]byte
		_, _ = unix.Read(p.evfd, buf[:]) // as in ring
		return 0, false
	}
	if f.happens(f.faults.Late) {
		return 0, false
	}
	n := copy(b, p.inbox[0])
	p.inbox = p.inbox[1:]
	return n, true
}

func (p *port) unreachable() ([]byte, bool) {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	if len(p.gone) == 0 {
		return nil, false
	}
	a := p.gone[0]
	p.gone = p.gone[1:]
	return a, true
}

func (p *port) now() int64 {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	return p.fabric.clock
}

func (p *port) wait() int64 { return 64 }

// alarm has a waiter look again at once: steps do not pass while all wait.
func (p *port) alarm(at int64) {
	if at != 0 {
		p.ring()
	}
}

func (p *port) descriptors() []int { return []int{p.evfd} }

func (p *port) late(room int) int {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	if p.fabric.happens(p.fabric.faults.Completions) {
		return p.fabric.rng.IntN(room + 1)
	}
	return room
}

func (p *port) pick(n int) int {
	if !p.fabric.faults.Order || n == 1 {
		return 0
	}
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	return p.fabric.rng.IntN(n)
}

func (p *port) random() uint64 {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	return p.fabric.rng.Uint64()
}

func (p *port) close() {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	delete(p.fabric.ports, p.id)
	unix.Close(p.evfd)
}
