package rxe

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// queue is a completion queue, with a channel of its own.
type queue struct {
	dev     *Device
	handle  uint32
	ring    *ring
	channel int
}

// CreateCompletionQueue makes a queue.
func (d *Device) CreateCompletionQueue(depth int) (provider.CompletionQueue, error) {
	if depth > d.info.Limits.Completions {
		return nil, provider.ErrLimit
	}
	var fd handle
	if err := d.command(cmdCreateChannel, struct{}{}, &fd); err != nil {
		return nil, err
	}
	q := &queue{dev: d, channel: int(fd.Handle)}
	var a queueAnswer
	err := unix.SetNonblock(q.channel, true)
	if err == nil {
		err = d.command(cmdCreateQueue, queueArgs{Depth: uint32(depth), Channel: int32(q.channel)}, &a)
	}
	if err != nil {
		_ = unix.Close(q.channel)
		return nil, err
	}
	q.handle = a.Handle
	if q.ring, err = d.mapRing(a.Ring); err != nil {
		_ = d.command(cmdDestroyQueue, doomed{Handle: q.handle}, &[2]uint32{})
		_ = unix.Close(q.channel)
		return nil, err
	}
	d.rings, d.fds = append(d.rings, q.ring), append(d.fds, q.channel)
	return q, nil
}

// Offsets in a completion, struct ib_uverbs_wc.
const (
	wcID        = 0
	wcStatus    = 8
	wcOpcode    = 12
	wcVendor    = 16
	wcBytes     = 20
	wcImmediate = 24
	wcPair      = 28
	wcFlags     = 36
	wcSize      = 48
)

// withImmediate is a flag of completions.
const withImmediate = 2

// received is the opcode of a completion of a receive by a Send, and written that of one by a WriteImmediate.
const (
	received = 128
	written  = 129
)

// Statuses of failed requests, by the kernel's numbers.
var statuses = map[uint32]provider.Status{1: provider.LengthError,
	2: provider.ProtectionError, // "local operation": a key that is not there
	4: provider.ProtectionError, 5: provider.Flushed, 8: provider.ProtectionError, 9: provider.RemoteInvalid, 10: provider.RemoteAccess,
	11: provider.RemoteInvalid, // "operation": the peer's driver could not make use of its receive, as for a message that is too long
	12: provider.RetryExceeded, 13: provider.RetryExceeded}

// Poll takes completions.
func (q *queue) Poll(dst []provider.Completion) (n int, err error) {
	if q.dev.closed {
		return 0, provider.ErrClosed
	}
	there := q.ring.filled()
	if there == q.ring.mask && q.overrun() {
		return 0, provider.ErrOverrun
	}
	for ; there > 0 && n < len(dst); there-- {
		if q.take(q.ring.element(), &dst[n]) {
			n++
		}
		q.ring.next()
	}
	q.ring.give()
	return n, nil
}

// take reads a completion. Those of a closed pair do not count, except that they free a slot.
func (q *queue) take(e []byte, c *provider.Completion) bool {
	ne := binary.NativeEndian
	number, id := ne.Uint32(e[wcPair:]), ne.Uint64(e[wcID:])
	p := q.dev.pairs[number]
	if p == nil {
		if r := q.dev.graves[number]; r != nil && id&receiveMark != 0 {
			r.taken(id&^receiveMark, c)
		}
		return false
	}
	status := provider.Success
	if s := ne.Uint32(e[wcStatus:]); s != 0 {
		var ok bool
		if status, ok = statuses[s]; !ok {
			status = provider.DeviceError
		}
	}
	*c = provider.Completion{QueuePair: p.number, Status: status, Vendor: ne.Uint32(e[wcVendor:])}
	if status != provider.Success {
		c.Vendor = ne.Uint32(e[wcStatus:])
		p.failed()
	}
	if id&receiveMark == 0 {
		return p.sent(id, c)
	}
	if status == provider.ProtectionError && p.takes.covered(id&^receiveMark) {
		c.Status = provider.LengthError // the driver has one number for both
	}
	if status == provider.Success {
		c.Bytes = ne.Uint32(e[wcBytes:])
		switch ne.Uint32(e[wcOpcode:]) {
		case received:
			c.Opcode = provider.Receive
		case written:
			c.Opcode = provider.ReceiveWrite
		}
		if ne.Uint32(e[wcFlags:])&withImmediate != 0 {
			c.Immediate, c.HasImmediate = binary.BigEndian.Uint32(e[wcImmediate:]), true
		}
	}
	return p.takes.taken(id&^receiveMark, c)
}

// overrun asks the kernel whether completions of the device were lost.
func (q *queue) overrun() bool {
	const lost = 0 // IB_EVENT_CQ_ERR
	var b [16]byte
	fds := []unix.PollFd{{Fd: int32(q.dev.async), Events: unix.POLLIN}}
	for {
		if n, _ := unix.Poll(fds, 0); n < 1 {
			return false
		}
		if n, err := unix.Read(q.dev.async, b[:]); err != nil || n < len(b) {
			return false
		}
		if binary.NativeEndian.Uint32(b[8:]) == lost {
			return true
		}
	}
}

// Arm has the channel tell of the next completion.
func (q *queue) Arm(solicited bool) error {
	a := notifyArgs{Handle: q.handle}
	if solicited {
		a.Solicited = 1
	}
	return q.dev.command(cmdNotify, a, nil)
}

// Descriptor is the channel.
func (q *queue) Descriptor() int { return q.channel }

// Acknowledge takes what the channel has.
func (q *queue) Acknowledge() error {
	var b [64]byte
	for {
		if n, err := unix.Read(q.channel, b[:]); err != nil || n < len(b) {
			return nil // empty
		}
	}
}

// Close destroys the queue.
func (q *queue) Close() error {
	if err := q.dev.command(cmdDestroyQueue, doomed{Handle: q.handle}, &[2]uint32{}); err != nil {
		return err
	}
	q.dev.drop(q.ring)
	_ = unix.Close(q.channel)
	for i, fd := range q.dev.fds {
		if fd == q.channel {
			q.dev.fds[i] = -1
		}
	}
	return nil
}
