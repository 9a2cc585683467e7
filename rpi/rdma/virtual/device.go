package virtual

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Device carries out what a Machine wants, on a provider's device. One goroutine at a time calls
// it. Checkpoints go through the Machine, except Quiet, Restart and Resume.
type Device struct {
	*Machine
	real    provider.Device
	domains map[ID]provider.ProtectionDomain
	regions map[ID]provider.MemoryRegion
	queues  map[ID]provider.CompletionQueue
	shared  map[ID]provider.SharedReceiveQueue
	pairs   map[ID]provider.QueuePair
	memory  map[ID][]byte

	sends    []provider.SendRequest // scratch, as the following
	receives []provider.ReceiveRequest
	segments []provider.Segment
	polled   [64]provider.Completion
}

// NewDevice returns a rank's layer over a device, which is its own from now on.
func NewDevice(rank int, real provider.Device) *Device {
	d := &Device{Machine: New(rank), memory: map[ID][]byte{}}
	d.use(real)
	return d
}

func (d *Device) use(real provider.Device) {
	d.real = real
	d.domains = map[ID]provider.ProtectionDomain{}
	d.regions = map[ID]provider.MemoryRegion{}
	d.queues = map[ID]provider.CompletionQueue{}
	d.shared = map[ID]provider.SharedReceiveQueue{}
	d.pairs = map[ID]provider.QueuePair{}
}

// Real returns the provider's device.
func (d *Device) Real() provider.Device { return d.real }

// Descriptor is that of a completion queue; another one after Restart.
func (d *Device) Descriptor(queue ID) int { return d.queues[queue].Descriptor() }

// Arm and Acknowledge are those of the completion queue. After Arm, poll once more before waiting.
func (d *Device) Arm(queue ID, solicited bool) error { return d.queues[queue].Arm(solicited) }

// Acknowledge takes what the descriptor had to tell.
func (d *Device) Acknowledge(queue ID) error { return d.queues[queue].Acknowledge() }

// NewDomain makes a protection domain.
func (d *Device) NewDomain() (ID, error) { return d.make(d.Machine.NewDomain()) }

// NewQueue makes a completion queue.
func (d *Device) NewQueue(depth int) (ID, error) { return d.make(d.Machine.NewQueue(depth)) }

// NewShared makes a shared receive queue.
func (d *Device) NewShared(of ID, depth, segments int) (ID, error) {
	return d.make(d.Machine.NewShared(of, depth, segments))
}

// Register makes memory a region. It has to stay mapped until the region is closed.
func (d *Device) Register(of ID, memory []byte, access provider.Access) (ID, error) {
	id, err := d.Machine.NewRegion(of, len(memory), access)
	if err != nil {
		return 0, err
	}
	d.memory[id] = memory
	return d.make(id, nil)
}

// NewPair makes a queue pair.
func (d *Device) NewPair(of ID, c PairConfig) (ID, error) { return d.make(d.Machine.NewPair(of, c)) }

func (d *Device) make(id ID, err error) (ID, error) {
	if err != nil {
		return 0, err
	}
	if err := d.run(); err != nil {
		d.Unmade(id)
		delete(d.memory, id)
		return 0, err
	}
	return id, nil
}

// Close closes an object.
func (d *Device) Close(id ID) error {
	if err := d.Machine.Close(id); err != nil {
		return err
	}
	return d.run()
}

// Modify changes the state of a pair.
func (d *Device) Modify(id ID, to provider.State, access provider.Access, peer PeerPair) error {
	var before pair
	if p := d.Pairs[id]; p != nil {
		before = *p
	}
	if err := d.Machine.Modify(id, to, access, peer); err != nil {
		return err
	}
	err := d.run()
	if err != nil { // so it may be tried again
		p := d.Pairs[id]
		p.State, p.Access, p.Peer = before.State, before.Access, before.Peer
	}
	return err
}

// Connect takes a new pair to ReadyToSend. One that is on its way there goes on; ErrState: it has failed.
func (d *Device) Connect(id ID, access provider.Access, peer PeerPair) error {
	for to := provider.Init; to <= provider.ReadyToSend; to++ {
		if p := d.Pairs[id]; p != nil && p.State >= to && p.State != provider.Failed {
			continue
		}
		if err := d.Modify(id, to, access, peer); err != nil {
			return err
		}
	}
	return nil
}

// Send posts requests.
func (d *Device) Send(id ID, requests []Request) (int, error) {
	n, err := d.Machine.Send(id, requests)
	if n == 0 {
		return 0, errors.Join(d.run(), err)
	}
	next := d.Pairs[id].Sends.Next
	failed := d.run()
	return n - int(next-d.Pairs[id].Sends.Next), errors.Join(failed, err) // less what the provider has not taken
}

// Receive posts receives.
func (d *Device) Receive(id ID, receives []Receive) (int, error) {
	n, err := d.Machine.Receive(id, receives)
	if n == 0 {
		return 0, errors.Join(d.run(), err)
	}
	log := d.takes(id)
	next := log.Next
	failed := d.run()
	return n - int(next-log.Next), errors.Join(failed, err)
}

// Poll moves completions of a queue to dst.
func (d *Device) Poll(queue ID, dst []Completion) (int, error) {
	if n := d.Take(queue, dst); n > 0 {
		return n, nil
	}
	real := d.queues[queue]
	if real == nil {
		return 0, nothing(queue)
	}
	room := len(dst)
	if d.phase != running {
		room = len(d.polled) // they go to the private list
	}
	got, err := real.Poll(d.polled[:min(room, len(d.polled))])
	n := 0
	for i := range got {
		if seen, ok := d.Completed(queue, &d.polled[i]); ok {
			dst[n] = seen
			n++
		}
	}
	return n, err
}

// Quiet drains all completion queues, and is Machine.Quiet.
func (d *Device) Quiet() (bool, error) {
	for _, id := range sorted(d.queues) {
		for {
			before := d.Stored(id)
			if _, err := d.Poll(id, nil); err != nil {
				return false, err
			}
			if d.Stored(id) == before {
				break
			}
		}
	}
	quiet, err := d.Machine.Quiet()
	return quiet, errors.Join(err, d.run())
}

// Restart goes on with another device. The former one is the caller's to close or to abandon. Book, Learn and Resume follow.
func (d *Device) Restart(real provider.Device) error {
	d.use(real)
	d.Machine.Restart()
	return d.run()
}

// Resume ends Restart.
func (d *Device) Resume() error {
	d.Machine.Resume()
	return d.run()
}

// Load makes a device of an image: memory tells where the bytes of each region are now, nil if nowhere. Restart follows.
func Load(image []byte, memory func(region ID) []byte) (*Device, error) {
	d := &Device{Machine: &Machine{}, memory: map[ID][]byte{}}
	if err := d.UnmarshalBinary(image); err != nil {
		return nil, err
	}
	for id, r := range d.Regions {
		buf := memory(id)
		if len(buf) != r.Length {
			r.Void = true
			continue
		}
		d.memory[id] = buf
	}
	return d, nil
}

// run carries out the actions. One that fails does not prevent the others, except those that depend
// on it: others are made of it.
func (d *Device) run() error {
	var failed error
	actions := d.Actions()
	for i := range actions {
		a := &actions[i]
		err := d.one(a)
		failed = errors.Join(failed, err)
		if err != nil && a.Do <= MakePair {
			break
		}
	}
	return failed
}

func (d *Device) one(a *Action) (err error) {
	switch a.Do {
	case MakeDomain:
		d.domains[a.ID], err = d.real.AllocDomain()
	case MakeQueue:
		d.queues[a.ID], err = d.real.CreateCompletionQueue(d.Queues[a.ID].Depth + markersAtOnce)
	case MakeShared:
		s := d.Shared[a.ID]
		d.shared[a.ID], err = d.domains[s.Domain].CreateSharedReceiveQueue(s.Depth, max(1, s.Segments))
	case MakeRegion:
		err = d.register(a.ID)
	case MakePair:
		err = d.pair(a.ID)
	case Modify:
		change := a.Change
		if change.To == provider.Init {
			change.Access |= provider.RemoteWrite // for markers, which touch no memory; whose memory may be written to, regions tell
		}
		err = d.pairs[a.ID].Modify(change)
	case PostSend:
		err = d.postSend(a)
	case PostReceive:
		err = d.postReceive(a)
	case Close:
		err = d.close(a.ID)
	}
	return err
}

func (d *Device) register(id ID) error {
	r := d.Regions[id]
	real, err := d.domains[r.Domain].Register(d.memory[id], r.Access)
	if errors.Is(err, provider.ErrUnmapped) && d.phase == restarting {
		d.Unmapped(id)
		return nil
	}
	if err != nil {
		return fmt.Errorf("region %s: %w", id, err)
	}
	d.regions[id] = real
	d.Registered(id, real.LocalKey(), provider.Remote{Address: real.Base(), Key: real.RemoteKey()})
	return nil
}

func (d *Device) pair(id ID) error {
	p := d.Pairs[id]
	c := p.Config
	config := provider.QueuePairConfig{SendQueue: d.queues[c.Send], ReceiveQueue: d.queues[c.Receive],
		SendDepth: c.SendDepth + 1, ReceiveDepth: c.ReceiveDepth, Segments: max(1, c.Segments), Inline: c.Inline}
	if c.Shared != 0 {
		config.Shared, config.ReceiveDepth = d.shared[c.Shared], 0
	}
	real, err := d.domains[p.Domain].CreateQueuePair(config)
	if err != nil {
		return fmt.Errorf("pair %s: %w", id, err)
	}
	d.pairs[id] = real
	d.Paired(id, real.Number(), real.Address())
	return nil
}

func (d *Device) close(id ID) (err error) {
	switch id.Kind() {
	case KindDomain:
		err = d.domains[id].Close()
		delete(d.domains, id)
	case KindRegion:
		if real := d.regions[id]; real != nil { // void otherwise
			err = real.Close()
		}
		delete(d.regions, id)
		delete(d.memory, id)
	case KindQueue:
		err = d.queues[id].Close()
		delete(d.queues, id)
	case KindShared:
		err = d.shared[id].Close()
		delete(d.shared, id)
	case KindPair:
		err = d.pairs[id].Close()
		delete(d.pairs, id)
	}
	return err
}

// gather translates segments. Those of a closed region become empty: a message that needs them fails.
func (d *Device) gather(of []Segment) []provider.Segment {
	from := len(d.segments)
	for _, s := range of {
		if r := d.Regions[s.Region]; r != nil && !r.Void {
			d.segments = append(d.segments, provider.Segment{Data: d.memory[s.Region][s.Off : s.Off+s.Len], Key: r.key})
		}
	}
	return d.segments[from:]
}

func (d *Device) postSend(a *Action) error {
	p := d.Pairs[a.ID]
	if p == nil { // a marker of a pair that was closed before it was posted
		return nil
	}
	d.sends, d.segments = d.sends[:0], d.segments[:0]
	for seq := a.From; seq < a.To; seq++ {
		e := p.Sends.find(seq)
		r := provider.SendRequest{ID: seq, Opcode: e.Opcode, Flags: e.Flags, Immediate: e.Imm, Segments: d.gather(e.Segments)}
		if e.Flags&provider.Inline != 0 {
			d.segments = append(d.segments, provider.Segment{Data: e.Data})
			r.Segments = d.segments[len(d.segments)-1:]
		}
		if e.Opcode >= provider.Write && r.Bytes() > 0 {
			r.Remote, _ = d.Machine.real(p, &e.Remote, e.Off, r.Bytes()) // it was checked
		}
		d.sends = append(d.sends, r)
	}
	n, err := d.pairs[a.ID].PostSend(d.sends)
	if n < len(d.sends) {
		d.RefusedSend(a.ID, a.From+uint64(n))
	}
	return err
}

func (d *Device) postReceive(a *Action) error {
	d.receives, d.segments = d.receives[:0], d.segments[:0]
	log := d.takes(a.ID)
	for seq := a.From; seq < a.To; seq++ {
		d.receives = append(d.receives, provider.ReceiveRequest{ID: seq | receiveBit, Segments: d.gather(log.find(seq).Segments)})
	}
	var n int
	var err error
	if real := d.shared[a.ID]; real != nil {
		n, err = real.PostReceive(d.receives)
	} else {
		n, err = d.pairs[a.ID].PostReceive(d.receives)
	}
	if n < len(d.receives) {
		d.RefusedReceive(a.ID, a.From+uint64(n))
	}
	return err
}
