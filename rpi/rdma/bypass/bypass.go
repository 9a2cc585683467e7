//go:build gorun_nolayer

// Package bypass stands where rpi/rdma/virtual does, for the measurement of what that costs: it hands requests and completions to the provider and back, and keeps no
// log, no counts and no names that outlive the device. A job over it has no checkpoints. The build tag gorun_nolayer has rpi/rdma use it (benchmarks/overhead -layer).
package bypass

import (
	"errors"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

var errBypassed = errors.New("rdma: built without the layer (gorun_nolayer): no checkpoints")

// receiveBit marks requests of receives.
const receiveBit = 1 << 63

// Device has the methods of virtual.Device that rpi/rdma calls.
type Device struct {
	Life uint64 // always 0

	rank    int
	made    uint64
	real    provider.Device
	domains map[virtual.ID]provider.ProtectionDomain
	regions map[virtual.ID]*region
	queues  map[virtual.ID]provider.CompletionQueue
	shared  map[virtual.ID]provider.SharedReceiveQueue
	pairs   map[virtual.ID]*pair
	numbers map[uint32]*pair

	sends    []provider.SendRequest // scratch, as the following
	receives []provider.ReceiveRequest
	segments []provider.Segment
	polled   [64]provider.Completion
}

type region struct {
	provider.MemoryRegion
	domain virtual.ID
	memory []byte
}

type pair struct {
	provider.QueuePair
	id, domain virtual.ID
}

// NewDevice returns what passes a device by.
func NewDevice(rank int, real provider.Device) *Device {
	return &Device{rank: rank, real: real, domains: map[virtual.ID]provider.ProtectionDomain{}, regions: map[virtual.ID]*region{},
		queues: map[virtual.ID]provider.CompletionQueue{}, shared: map[virtual.ID]provider.SharedReceiveQueue{}, pairs: map[virtual.ID]*pair{}, numbers: map[uint32]*pair{}}
}

// Real returns the provider's device.
func (d *Device) Real() provider.Device { return d.real }

// id is unique among the ranks, as the layer's are.
func (d *Device) id(k virtual.Kind) virtual.ID {
	d.made++
	return virtual.MakeID(d.rank, k, d.made)
}

func add[T any](d *Device, to map[virtual.ID]T, k virtual.Kind, made T, err error) (virtual.ID, error) {
	if err != nil {
		return 0, err
	}
	id := d.id(k)
	to[id] = made
	return id, nil
}

// NewDomain makes a protection domain.
func (d *Device) NewDomain() (virtual.ID, error) {
	made, err := d.real.AllocDomain()
	return add(d, d.domains, virtual.KindDomain, made, err)
}

// NewQueue makes a completion queue.
func (d *Device) NewQueue(depth int) (virtual.ID, error) {
	made, err := d.real.CreateCompletionQueue(depth)
	return add(d, d.queues, virtual.KindQueue, made, err)
}

// NewShared makes a shared receive queue.
func (d *Device) NewShared(of virtual.ID, depth, segments int) (virtual.ID, error) {
	made, err := d.domains[of].CreateSharedReceiveQueue(depth, segments)
	return add(d, d.shared, virtual.KindShared, made, err)
}

// Register makes memory a region.
func (d *Device) Register(of virtual.ID, memory []byte, access provider.Access) (virtual.ID, error) {
	made, err := d.domains[of].Register(memory, access)
	return add(d, d.regions, virtual.KindRegion, &region{made, of, memory}, err)
}

// NewPair makes a queue pair.
func (d *Device) NewPair(of virtual.ID, c virtual.PairConfig) (virtual.ID, error) {
	made, err := d.domains[of].CreateQueuePair(provider.QueuePairConfig{SendQueue: d.queues[c.Send], ReceiveQueue: d.queues[c.Receive], Shared: d.shared[c.Shared],
		SendDepth: c.SendDepth, ReceiveDepth: c.ReceiveDepth, Segments: max(1, c.Segments), Inline: c.Inline})
	p := &pair{QueuePair: made, domain: of}
	id, err := add(d, d.pairs, virtual.KindPair, p, err)
	if err == nil {
		p.id = id
		d.numbers[made.Number()] = p
	}
	return id, err
}

// Close closes an object.
func (d *Device) Close(id virtual.ID) error {
	switch id.Kind() {
	case virtual.KindRegion:
		r := d.regions[id]
		delete(d.regions, id)
		return r.Close()
	case virtual.KindPair:
		p := d.pairs[id]
		delete(d.pairs, id)
		delete(d.numbers, p.Number())
		return p.Close()
	}
	return nil // with the device
}

// Pair returns what to tell the peer.
func (d *Device) Pair(id virtual.ID) (virtual.PeerPair, error) {
	p := d.pairs[id]
	if p == nil {
		return virtual.PeerPair{}, virtual.ErrNoSuch
	}
	return virtual.PeerPair{Pair: id, Domain: p.domain, Address: p.Address()}, nil
}

// Region returns what to tell peers.
func (d *Device) Region(id virtual.ID) (virtual.RemoteRegion, error) {
	r := d.regions[id]
	if r == nil {
		return virtual.RemoteRegion{}, virtual.ErrNoSuch
	}
	return virtual.RemoteRegion{Region: id, Domain: r.domain, Length: len(r.memory), Real: provider.Remote{Address: r.Base(), Key: r.RemoteKey()}}, nil
}

// Connect takes a pair to ReadyToSend.
func (d *Device) Connect(id virtual.ID, access provider.Access, peer virtual.PeerPair) error {
	p := d.pairs[id]
	for to := p.State() + 1; to <= provider.ReadyToSend; to++ {
		if err := p.Modify(provider.Change{To: to, Access: access, Peer: peer.Address}); err != nil {
			return err
		}
	}
	return nil
}

// gather translates segments.
func (d *Device) gather(of []virtual.Segment) []provider.Segment {
	from := len(d.segments)
	for _, s := range of {
		r := d.regions[s.Region]
		d.segments = append(d.segments, provider.Segment{Data: r.memory[s.Off:][:s.Len], Key: r.LocalKey()})
	}
	return d.segments[from:]
}

// Send posts requests.
func (d *Device) Send(id virtual.ID, requests []virtual.Request) (int, error) {
	d.sends, d.segments = d.sends[:0], d.segments[:0]
	for i := range requests {
		q := &requests[i]
		r := provider.SendRequest{ID: q.ID, Opcode: q.Opcode, Flags: q.Flags, Immediate: q.Immediate, Segments: d.gather(q.Segments)}
		if q.Flags&provider.Inline != 0 {
			d.segments = append(d.segments, provider.Segment{Data: q.Data})
			r.Segments = d.segments[len(d.segments)-1:]
		}
		r.Remote = provider.Remote{Address: q.Remote.Real.Address + q.Off, Key: q.Remote.Real.Key}
		d.sends = append(d.sends, r)
	}
	return d.pairs[id].PostSend(d.sends)
}

// Receive posts receives on a shared queue.
func (d *Device) Receive(id virtual.ID, receives []virtual.Receive) (int, error) {
	d.receives, d.segments = d.receives[:0], d.segments[:0]
	for i := range receives {
		d.receives = append(d.receives, provider.ReceiveRequest{ID: receives[i].ID | receiveBit, Segments: d.gather(receives[i].Segments)})
	}
	return d.shared[id].PostReceive(d.receives)
}

// Poll moves completions of a queue to dst.
func (d *Device) Poll(queue virtual.ID, dst []virtual.Completion) (int, error) {
	got, err := d.queues[queue].Poll(d.polled[:min(len(dst), len(d.polled))])
	n := 0
	for i := range got {
		c := &d.polled[i]
		if p := d.numbers[c.QueuePair]; p != nil {
			dst[n] = virtual.Completion{ID: c.ID &^ receiveBit, Pair: p.id, Opcode: c.Opcode, Status: c.Status, Bytes: int(c.Bytes), Immediate: c.Immediate, HasImmediate: c.HasImmediate}
			n++
		}
	}
	return n, err
}

// Descriptor, Arm and Acknowledge are those of a completion queue.
func (d *Device) Descriptor(queue virtual.ID) int { return d.queues[queue].Descriptor() }

// Arm is as virtual.Device's.
func (d *Device) Arm(queue virtual.ID, solicited bool) error { return d.queues[queue].Arm(solicited) }

// Acknowledge is as virtual.Device's.
func (d *Device) Acknowledge(queue virtual.ID) error { return d.queues[queue].Acknowledge() }

// What checkpoints need is not there.

func (d *Device) Quiesce()                      {}
func (d *Device) Continue()                     {}
func (d *Device) Tell(int, []virtual.Count)     {}
func (d *Device) Learn(virtual.Book)            {}
func (d *Device) Quiet() (bool, error)          { return false, errBypassed }
func (d *Device) Restart(provider.Device) error { return errBypassed }
func (d *Device) Resume() error                 { return errBypassed }
