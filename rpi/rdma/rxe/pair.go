package rxe

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/fifo"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// pair is a queue pair, of the type RC.
type pair struct {
	of     *domain
	config provider.QueuePairConfig
	handle uint32
	number uint32
	psn    uint32 // the number of the first packet that it sends
	state  provider.State
	sends  *ring
	takes  *receives
	bell   []byte // the command that has the driver look at the send queue

	open   fifo.List[sent] // posted and not known to be over
	first  uint64          // number of open[0]
	serial uint32
}

// sent is a request of the send queue.
type sent struct {
	id     uint64
	opcode provider.Opcode
	bytes  uint32
}

// typeRC is IB_QPT_RC.
const typeRC = 2

// CreateQueuePair makes a pair.
func (o *domain) CreateQueuePair(c provider.QueuePairConfig) (provider.QueuePair, error) {
	d, l := o.dev, o.dev.info.Limits
	if c.SendDepth > l.SendDepth+1 || c.ReceiveDepth > l.ReceiveDepth || c.Segments > l.Segments || c.Inline > l.Inline {
		return nil, provider.ErrLimit
	}
	segments := uint32(max(1, c.Segments))
	args := pairArgs{Domain: o.handle, Send: c.SendQueue.(*queue).handle, Receive: c.ReceiveQueue.(*queue).handle,
		SendDepth: uint32(c.SendDepth), ReceiveDepth: uint32(c.ReceiveDepth), SendSegments: segments, ReceiveSegments: segments, Inline: uint32(c.Inline), Type: typeRC}
	if c.Shared != nil {
		args.IsShared, args.Shared, args.ReceiveDepth, args.ReceiveSegments = 1, c.Shared.(*receives).handle, 0, 0
	}
	var a pairAnswer
	if err := d.command(cmdCreatePair, args, &a); err != nil {
		return nil, err
	}
	p := &pair{of: o, config: c, handle: a.Handle, number: a.Number, psn: someNumber()}
	bell, err := d.encode(cmdPostSend, postArgs{Handle: p.handle, Size: sendSize}, new(uint32))
	if err != nil {
		return nil, err
	}
	p.bell = bell
	d.pairs[p.number] = p
	delete(d.graves, p.number)
	if p.sends, err = d.mapRing(a.Sends); err == nil {
		d.rings = append(d.rings, p.sends)
		err = p.findReceives(a.Receives)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p *pair) findReceives(at place) (err error) {
	if p.config.Shared != nil {
		p.takes = p.config.Shared.(*receives)
		return nil
	}
	p.takes = newReceives(p.of.dev, p.config.ReceiveDepth, p.config.Segments)
	if p.config.ReceiveDepth == 0 {
		return nil
	}
	if p.takes.ring, err = p.of.dev.mapRing(at); err == nil {
		p.of.dev.rings = append(p.of.dev.rings, p.takes.ring)
	}
	return err
}

// someNumber is a random number of a packet.
func someNumber() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint32(b[:]) & 0xffffff
}

// Number names the pair.
func (p *pair) Number() uint32 { return p.number }

// State is the present one, as far as completions have told.
func (p *pair) State() provider.State { return p.state }

func (p *pair) failed() { p.state = provider.Failed }

// addressSize is that of: the device's GID, the pair's number and first packet, the MTU.
const addressSize = 16 + 4 + 4 + 1

// Address is what the peer needs.
func (p *pair) Address() []byte {
	b := append([]byte(nil), p.of.dev.gid[:]...)
	b = binary.BigEndian.AppendUint32(b, p.number)
	b = binary.BigEndian.AppendUint32(b, p.psn)
	return append(b, p.of.dev.mtu)
}

// States and masks of a change.
const (
	toInit, toRTR, toRTS, toError = 1, 2, 3, 6

	setState, setAccess, setKey, setPort          = 1 << 0, 1 << 3, 1 << 4, 1 << 5
	setRoute, setMTU, setTimeout, setRetries      = 1 << 7, 1 << 8, 1 << 9, 1 << 10
	setNotReadyRetries, setReceivePSN, setReadOut = 1 << 11, 1 << 12, 1 << 13
	setNotReady, setSendPSN, setReadIn, setPeer   = 1 << 15, 1 << 16, 1 << 17, 1 << 20
)

// Times, in the units of the specification.
const (
	answerTime   = 17 // 4.096 us << 17: half a second, and six times again
	mostRetries  = 6  // of 7 this driver makes "forever"
	forever      = 7  // receiver not ready
	notReadyTime = 12 // .64 ms
	hops         = 64
)

// Modify changes the state.
func (p *pair) Modify(c provider.Change) error {
	a := modifyArgs{Handle: p.handle, Mask: setState, Port: 1}
	switch {
	case c.To == provider.Failed && p.state == provider.Failed:
		return nil
	case c.To == provider.Failed:
		a.State = toError
	case c.To != p.state+1 || c.To > provider.ReadyToSend:
		return fmt.Errorf("%w: from %d to %d", provider.ErrState, p.state, c.To)
	case c.To == provider.Init:
		a.State, a.Access = toInit, accessOf(c.Access)
		a.Mask |= setAccess | setKey | setPort
	case c.To == provider.ReadyToReceive:
		if len(c.Peer) != addressSize {
			return fmt.Errorf("%w: of another provider", provider.ErrUnreachable)
		}
		a.State, a.Peer, a.ReceivePSN = toRTR, binary.BigEndian.Uint32(c.Peer[16:]), binary.BigEndian.Uint32(c.Peer[20:])
		a.To = route{GID: [16]byte(c.Peer), Index: p.of.dev.index, Hops: hops, Global: 1, Port: 1}
		a.MTU, a.ReadsIn, a.NotReady = min(p.of.dev.mtu, c.Peer[24]), p.of.dev.reads, notReadyTime
		a.Mask |= setRoute | setMTU | setPeer | setReceivePSN | setReadIn | setNotReady
	case c.To == provider.ReadyToSend:
		a.State, a.SendPSN = toRTS, p.psn
		a.Timeout, a.Retries, a.NotReadyRetries, a.ReadsOut = answerTime, mostRetries, forever, p.of.dev.reads
		a.Mask |= setTimeout | setRetries | setNotReadyRetries | setSendPSN | setReadOut
	}
	if err := p.of.dev.command(cmdModifyPair, a, nil); err != nil {
		return err
	}
	p.state = c.To
	if c.To == provider.Failed {
		_ = p.ring()
		p.kick()
	}
	return nil
}

// kick has the driver look at receives of a pair that has failed.
func (p *pair) kick() {
	if p.config.Shared == nil {
		_ = p.of.dev.command(cmdPostReceive, postArgs{Handle: p.handle, Size: receiveSize}, new(uint32))
	}
}

// Sizes of requests in commands that post some.
const (
	sendSize    = 56
	receiveSize = 16
)

// ring rings the doorbell of the send queue: it posts nothing by command. The driver does not wait, so Go's scheduler need not know of the call.
func (p *pair) ring() error {
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(p.of.dev.fd), uintptr(unsafe.Pointer(&p.bell[0])), uintptr(len(p.bell)))
	if e != 0 {
		return explain(e)
	}
	return nil
}

// PostReceive appends receives.
func (p *pair) PostReceive(list []provider.ReceiveRequest) (int, error) {
	if p.config.Shared != nil || p.state == provider.Reset {
		return 0, provider.ErrState
	}
	if p.config.ReceiveDepth == 0 {
		return 0, provider.ErrFull
	}
	n, err := p.takes.PostReceive(list)
	if p.state == provider.Failed {
		p.kick()
	}
	return n, err
}

// PostSend appends requests and rings once.
func (p *pair) PostSend(list []provider.SendRequest) (n int, err error) {
	if p.of.dev.closed {
		return 0, provider.ErrClosed
	}
	for ; n < len(list); n++ {
		if err = p.post(&list[n]); err != nil {
			break
		}
	}
	if n > 0 {
		p.sends.publish()
		if e := p.ring(); err == nil {
			err = e
		}
	}
	return n, err
}

// Offsets in a request of the send queue, struct rxe_send_wqe, and flags in it.
const (
	sendID        = 0
	sendOpcode    = 12
	sendFlags     = 16
	sendImmediate = 20
	sendAddress   = 24
	sendKey       = 32
	sendIova      = 152
	sendSerial    = 176
	sendDMA       = 184
	sendHeader    = sendDMA + dmaSegments

	flagSignalled = 2
	flagSolicited = 4
	flagInline    = 8
)

// wireOpcodes are the driver's.
var wireOpcodes = [...]uint32{provider.Send: 2, provider.SendImmediate: 3, provider.Write: 0, provider.WriteImmediate: 1, provider.Read: 4}

func (p *pair) post(r *provider.SendRequest) error {
	inline, bytes := r.Flags&provider.Inline != 0, r.Bytes()
	switch {
	case p.state != provider.ReadyToSend && p.state != provider.Failed:
		return provider.ErrState
	case int(r.Opcode) >= len(wireOpcodes), len(r.Segments) > max(1, p.config.Segments), inline && (bytes > p.config.Inline || r.Opcode == provider.Read):
		return provider.ErrRequest
	case p.open.Len() >= p.config.SendDepth || p.sends.full():
		return provider.ErrFull
	}
	p.write(p.sends.element(), r, inline, bytes)
	p.sends.next()
	p.open.Append(sent{r.ID, r.Opcode, uint32(bytes)})
	return nil
}

// write writes a request into its element.
func (p *pair) write(e []byte, r *provider.SendRequest, inline bool, bytes int) {
	ne := binary.NativeEndian
	clear(e[:sendHeader])
	ne.PutUint64(e[sendID:], p.first+uint64(p.open.Len()))
	ne.PutUint32(e[sendOpcode:], wireOpcodes[r.Opcode])
	ne.PutUint32(e[sendFlags:], flagsOf(r.Flags))
	binary.BigEndian.PutUint32(e[sendImmediate:], r.Immediate)
	if r.Opcode >= provider.Write && bytes > 0 {
		ne.PutUint64(e[sendAddress:], r.Remote.Address)
		ne.PutUint32(e[sendKey:], uint32(r.Remote.Key))
		ne.PutUint64(e[sendIova:], r.Remote.Address)
	}
	ne.PutUint32(e[sendSerial:], p.serial)
	p.serial++
	if !inline {
		describe(e[sendDMA:], r.Segments)
		return
	}
	at := e[sendHeader:]
	for _, s := range r.Segments {
		at = at[copy(at, s.Data):]
	}
	head(e[sendDMA:], bytes, 0)
}

func flagsOf(f provider.Flags) (flags uint32) {
	if f&provider.Signalled != 0 {
		flags |= flagSignalled
	}
	if f&provider.Solicited != 0 {
		flags |= flagSolicited
	}
	if f&provider.Inline != 0 {
		flags |= flagInline
	}
	return flags
}

// sent tells of which request a completion is, and frees the slots of those before.
func (p *pair) sent(number uint64, c *provider.Completion) bool {
	i := number - p.first
	if i >= uint64(p.open.Len()) {
		return false
	}
	s := p.open.Elements()[i]
	p.open.Drop(int(i) + 1)
	p.first = number + 1
	c.ID = s.id
	if c.Status == provider.Success {
		if c.Opcode = s.opcode; c.Opcode == provider.Read {
			c.Bytes = s.bytes
		}
	}
	return true
}

// Close destroys the pair. Its completions go with it.
func (p *pair) Close() error {
	d := p.of.dev
	if err := d.command(cmdDestroyPair, doomed{Handle: p.handle}, new(uint32)); err != nil {
		return err
	}
	delete(d.pairs, p.number)
	if p.config.Shared != nil {
		d.graves[p.number] = p.takes
	}
	d.drop(p.sends)
	if p.config.Shared == nil && p.takes != nil {
		d.drop(p.takes.ring)
	}
	p.state = provider.Failed
	return nil
}
