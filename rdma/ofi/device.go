package ofi

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// How many operations of a kind libfabric may have at once.
const (
	receivesAtOnce = 64
	sendsAtOnce    = 64
	readsAtOnce    = 128
)

// Device is an opened device.
type Device struct {
	end       *endpoint
	info      provider.Info
	packetMax int
	number    uint32
	polls     uint64

	pairs   map[uint32]*pair
	graves  map[uint32]*pair // closed ones: their peers are to hear of it
	domains map[*domain]bool
	queues  map[*queue]bool
	peers   map[string]*peer
	dead    []*peer
	busy    []*pair

	spareBusy []*pair // to be used again
	moving    map[*transfer]bool

	ops                  []op
	contexts, buffers    []byte // of ops
	mem                  memory // of buffers
	freeSends, freeReads []int
	unposted             []int // receives
	spareUnposted        []int // to be used again

	pulse *pulse
	look  bool // at the peers, soon
	tick  *ticker
	armed int // queues

	in, out packet
	scratch []byte
	closed  bool
}

// op is an operation that libfabric has.
type op struct {
	peer     *peer     // of a send
	transfer *transfer // of a read
}

func newDevice(f *endpoint, there *pulse, info provider.Info) (*Device, error) {
	d := &Device{end: f, info: info, pulse: there, packetMax: 16 << 10, pairs: map[uint32]*pair{}, graves: map[uint32]*pair{}, domains: map[*domain]bool{},
		queues: map[*queue]bool{}, peers: map[string]*peer{}, moving: map[*transfer]bool{}, number: uint32(random()) & 0xffff}
	if f.name == "shm" {
		d.packetMax = 4 << 10 // longer ones are copied more than once
	}
	const n = receivesAtOnce + sendsAtOnce + readsAtOnce
	d.ops, d.contexts = make([]op, n), make([]byte, n*contextSize)
	d.buffers, d.scratch = make([]byte, (receivesAtOnce+sendsAtOnce)*d.packetMax), make([]byte, 0, d.packetMax)
	for i := range sendsAtOnce {
		d.freeSends = append(d.freeSends, receivesAtOnce+i)
	}
	for i := range readsAtOnce {
		d.freeReads = append(d.freeReads, receivesAtOnce+sendsAtOnce+i)
	}
	f.memory = [][]byte{d.contexts, d.buffers}
	var err error
	if d.tick, err = newTicker(f.waitFD < 0); err == nil && there == nil {
		d.pulse, err = newPulse(f.address)
	}
	if err == nil && f.local {
		d.mem, err = f.register(d.buffers)
	}
	if err != nil {
		d.release()
		return nil, err
	}
	for i := range receivesAtOnce {
		d.postReceive(i)
	}
	return d, nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Info tells what the device can do.
func (d *Device) Info() provider.Info { return d.info }

// Close closes the device and what was made of it.
func (d *Device) Close() error {
	if d.closed {
		return provider.ErrClosed
	}
	d.forget()
	if d.end.name != "shm" {
		d.end.closeOne(&d.end.ep) // it may be writing to regions
	}
	for o := range d.domains {
		for _, r := range o.all {
			d.end.unregister(r.mem)
		}
	}
	if d.mem.mr != 0 {
		d.end.unregister(d.mem)
	}
	for q := range d.queues {
		q.release()
	}
	d.release()
	d.end.leave()
	return nil
}

// Abandon forgets the device. Its descriptors' numbers may be others' by now.
func (d *Device) Abandon() {
	d.forget()
	d.end.desert()
}

func (d *Device) forget() {
	d.closed = true
	d.pairs, d.busy = nil, nil
}

func (d *Device) release() {
	if d.tick != nil {
		d.tick.close()
	}
	d.pulse.close()
	for _, p := range d.peers {
		p.close()
	}
}

func (d *Device) buffer(i int) []byte   { return d.buffers[i*d.packetMax:][:d.packetMax] }
func (d *Device) context(i int) uintptr { return uintptr(unsafe.Pointer(&d.contexts[i*contextSize])) }

func (d *Device) postReceive(i int) {
	if d.end.receiveTo(d.buffer(i), d.mem.desc, d.context(i)) != taken {
		d.unposted = append(d.unposted, i)
	}
}

// postReceives posts again what was used, if it is more than a few.
func (d *Device) postReceives(few int) {
	if len(d.unposted) <= few {
		return
	}
	list := d.unposted
	d.unposted, d.spareUnposted = d.spareUnposted[:0], nil
	for _, i := range list {
		d.postReceive(i)
	}
	d.spareUnposted = list
}

// progress takes what has come, and sends what may be sent.
func (d *Device) progress() error {
	if d.closed {
		return provider.ErrClosed
	}
	d.polls++
	few := 0 // while something comes the program gets it first
	for {
		list, failed, err := d.end.poll()
		if err != nil {
			return err
		}
		if len(list) > 0 {
			few = receivesAtOnce / 4
		}
		for i := range list {
			d.completed(list[i].context, int(list[i].length))
		}
		if failed != nil {
			d.failed(failed)
		} else if len(list) < len(d.end.entries) {
			break
		}
	}
	if d.look || d.polls&0xff == 0 {
		d.look = false
		d.lookAfterPeers()
	}
	d.postReceives(few)
	d.pump(false)
	return nil
}

// index returns the operation that a context is of, -1 if it is none.
func (d *Device) index(context uintptr) int {
	i := (context - d.context(0)) / contextSize
	if context < d.context(0) || i >= uintptr(len(d.ops)) {
		return -1
	}
	return int(i)
}

func (d *Device) completed(context uintptr, length int) {
	i := d.index(context)
	switch {
	case i < 0:
	case i < receivesAtOnce:
		if d.in.parse(d.buffer(i)[:min(length, d.packetMax)]) == nil {
			d.arrived(&d.in)
		}
		d.unposted = append(d.unposted, i)
	case i < receivesAtOnce+sendsAtOnce:
		d.freeSends = append(d.freeSends, i)
	default:
		d.freeReads = append(d.freeReads, i)
		d.ops[i].transfer.moved(true)
	}
}

// failed hears of an operation that libfabric gave up.
func (d *Device) failed(e *cqError) {
	i := d.index(e.context)
	switch {
	case i < 0: // of bytes that were copied: the next look at the peers tells
		d.look = true
	case i < receivesAtOnce:
		d.postReceive(i)
	case i < receivesAtOnce+sendsAtOnce:
		d.freeSends = append(d.freeSends, i)
		d.lose(d.ops[i].peer)
	default:
		d.freeReads = append(d.freeReads, i)
		d.ops[i].transfer.moved(false)
	}
}

func (d *Device) arrived(p *packet) {
	q := d.pairs[p.To]
	if q == nil {
		q = d.graves[p.To]
	}
	switch {
	case q == nil:
	case p.Kind == gone:
		if q.connected() && q.peerCookie == p.Cookie {
			q.fail(provider.RetryExceeded, false)
		}
	case q.cookie == p.Cookie: // others have no receiver or sender here
		q.arrived(p)
	}
}

// transmit sends a packet with bytes of segments. On broken, the peer is dead.
func (d *Device) transmit(to *peer, p *packet, segments []provider.Segment) outcome {
	n := headerSize + len(p.Places)*placeSize
	if p.remote() {
		n += remoteSize
	}
	for i := range segments {
		n += len(segments[i].Data)
	}
	slot := -1
	b := d.scratch
	if n > d.end.inject {
		if len(d.freeSends) == 0 {
			return later
		}
		slot = d.freeSends[len(d.freeSends)-1]
		b = d.buffer(slot)[:0]
	}
	b = p.append(b)
	for i := range segments {
		b = append(b, segments[i].Data...)
	}
	var out outcome
	if slot < 0 {
		out = d.end.sendCopied(b, to.number)
	} else if out = d.end.sendFrom(b, d.mem.desc, to.number, d.context(slot)); out == taken {
		d.ops[slot].peer = to
		d.freeSends = d.freeSends[:len(d.freeSends)-1]
	}
	if out == broken {
		d.lose(to)
	}
	return out
}

// lose records that a peer is dead.
func (d *Device) lose(p *peer) {
	if !p.lost {
		p.lost = true
		d.dead = append(d.dead, p)
	}
}

// pump does what pairs have to do. Acknowledgements that may wait for a packet to go with are sent as well if now.
func (d *Device) pump(now bool) {
	for len(d.dead) > 0 {
		p := d.dead[0]
		d.dead = d.dead[1:]
		for _, q := range d.sorted() {
			if q.peer == p {
				q.fail(provider.RetryExceeded, false)
			}
		}
		delete(d.peers, p.key)
		p.close()
	}
	if now {
		d.postReceives(0)
	}
	list := d.busy
	d.busy, d.spareBusy = d.spareBusy[:0], nil
	for _, p := range list {
		p.isBusy = false
		p.pump(now)
	}
	d.spareBusy = list
}

func (d *Device) sorted() []*pair {
	list := make([]*pair, 0, len(d.pairs))
	for _, p := range d.pairs {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pair) int { return int(a.number) - int(b.number) })
	return list
}

// settle polls until nothing lands any more in memory that concerns.
func (d *Device) settle(what string, concerns func(*transfer) bool) error {
	for begin := now(); ; {
		waiting := false
		for t := range d.moving {
			waiting = waiting || concerns(t)
		}
		if !waiting {
			return nil
		}
		if now()-begin > settleTime {
			return fmt.Errorf("%w: libfabric has not ended its reads into a %s", provider.ErrBusy, what)
		}
		if err := d.progress(); err != nil {
			return errors.Join(err, provider.ErrBusy)
		}
	}
}
