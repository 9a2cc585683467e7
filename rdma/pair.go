package rdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
	"golang.org/x/sys/unix"
)

// Register makes memory a region. buf is not empty and stays the program's. It must stay mapped until the region is closed.
func (o Domain) Register(buf []byte, access Access) (Region, error) {
	id, err := o.d.v.Register(o.id, buf, access)
	return Region{object{o.d, id}}, err
}

// NewShared makes a receive queue for several pairs: so many receives, with at most so many segments each.
func (o Domain) NewShared(depth, segments int) (Shared, error) {
	id, err := o.d.v.NewShared(o.id, depth, segments)
	return Shared{object{o.d, id}}, err
}

// PairConfig is what a pair is made of. Both completion queues may be the same one.
type PairConfig struct {
	Send, Receive           Queue
	Shared                  Shared // the zero value: the pair has receives of its own
	SendDepth, ReceiveDepth int    // requests that are posted and not over
	Segments, Inline        int    // of a request; bytes of an inline one. Segments 0 is 1
}

// NewPair makes a queue pair.
func (o Domain) NewPair(c PairConfig) (Pair, error) {
	id, err := o.d.v.NewPair(o.id, virtual.PairConfig{Send: c.Send.id, Receive: c.Receive.id, Shared: c.Shared.id, SendDepth: c.SendDepth,
		ReceiveDepth: c.ReceiveDepth, Segments: c.Segments, Inline: c.Inline})
	return Pair{object{o.d, id}}, err
}

// At names n bytes of the region for a request.
func (r Region) At(off, n int) Segment { return Segment{Region: r.id, Off: off, Len: n} }

// Key returns what peers need to write to the region or to read it, as far as it and their pair allow.
func (r Region) Key() (RemoteRegion, error) { return r.d.v.Region(r.id) }

// Address returns what the peer needs to connect its pair to this one.
func (p Pair) Address() (PeerPair, error) { return p.d.v.Pair(p.id) }

// State returns the present state: ReadyToSend when connected, Failed after an error of any request.
func (p Pair) State() State {
	if q := p.d.v.Pairs[p.id]; q != nil {
		return q.State
	}
	return 0
}

// Prepare lets the pair take receives before it is connected. access is what the peer may do by Read and Write.
func (p Pair) Prepare(access Access) error {
	return p.d.v.Modify(p.id, 1, access, PeerPair{})
}

// Connect connects the pair to the peer's, which has to do the same. Nothing waits for that: what is posted is sent when the peer is ready. access is as with
// Prepare, and of no meaning after that.
func (p Pair) Connect(access Access, peer PeerPair) error { return p.d.v.Connect(p.id, access, peer) }

// Post posts requests, in order, with one doorbell. It returns how many were taken, and why not the next one: ErrFull, ErrState, ErrRequest, ErrKey, ErrQuiet. Their bytes
// are the device's until they are over.
func (p Pair) Post(requests []Request) (int, error) { return p.d.v.Send(p.id, requests) }

// PostReceive posts receives, in order. It returns how many were taken, and why not the next one.
func (p Pair) PostReceive(receives []Receive) (int, error) { return p.d.v.Receive(p.id, receives) }

// PostReceive is as Pair.PostReceive.
func (s Shared) PostReceive(receives []Receive) (int, error) { return s.d.v.Receive(s.id, receives) }

// Poll moves completions to dst and returns how many. It does not wait. Many providers move bytes only while both sides poll (Info.Manual): a target of Writes and Reads as well.
func (q Queue) Poll(dst []Completion) (int, error) { return q.d.v.Poll(q.id, dst) }

// slice is how long Wait sleeps before it looks at its context, in ms.
const slice = 50

// Wait is Poll that waits for at least one completion, without using the processor. dst is not empty. It returns the error of the context when that ends.
func (q Queue) Wait(ctx context.Context, dst []Completion) (int, error) {
	if len(dst) == 0 {
		return 0, fmt.Errorf("%w: Wait without room for a completion", ErrRequest)
	}
	v := q.d.v
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if v.Queues[q.id] == nil {
			return 0, fmt.Errorf("%w: %s", ErrNoSuch, q.id)
		}
		if err := v.Arm(q.id, false); err != nil {
			return 0, err
		}
		if n, err := v.Poll(q.id, dst); n > 0 || err != nil {
			return n, err
		}
		fds := []unix.PollFd{{Fd: int32(v.Descriptor(q.id)), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, slice)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("rdma: poll: %w", err)
		}
		if n > 0 {
			if err := v.Acknowledge(q.id); err != nil {
				return 0, err
			}
		}
	}
}
