package soft

import (
	"encoding/binary"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/fifo"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"golang.org/x/sys/unix"
)

// queue is a completion queue. Each send queue and each pair's receives have a line of their own, of which the first is seen first.
type queue struct {
	dev              *Device
	depth            int
	lines            []*line
	stored           int
	overrun          bool
	users            int
	epfd, evfd       int
	armed, solicited bool
}

type line struct {
	list fifo.List[provider.Completion]
}

// CreateCompletionQueue makes a queue.
func (d *Device) CreateCompletionQueue(depth int) (provider.CompletionQueue, error) {
	if d.closed {
		return nil, provider.ErrClosed
	}
	q := &queue{dev: d, depth: depth, epfd: -1, evfd: -1}
	var err error
	if q.evfd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err == nil {
		q.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	}
	for _, fd := range append(d.net.descriptors(), q.evfd) {
		if err == nil {
			err = unix.EpollCtl(q.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		q.release()
		return nil, fmt.Errorf("soft: completion queue: %w", err)
	}
	d.queues[q] = true
	return q, nil
}

func (q *queue) release() {
	for _, fd := range []int{q.epfd, q.evfd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Poll makes progress and takes completions.
func (q *queue) Poll(dst []provider.Completion) (int, error) {
	q.dev.progress()
	if q.overrun {
		return 0, provider.ErrOverrun
	}
	n := 0
	for room := min(len(dst), q.dev.net.late(q.stored)); n < room; n++ {
		i := q.choose()
		l := q.lines[i]
		dst[n] = l.list.Elements()[0]
		l.list.Drop(1)
		q.stored--
	}
	if n < len(dst) && q.stored > 0 && q.armed { // late ones are yet to be seen
		q.ring()
	}
	return n, nil
}

// choose returns the line of which the next completion is seen.
func (q *queue) choose() int {
	full := 0
	for _, l := range q.lines {
		if l.list.Len() > 0 {
			full++
		}
	}
	left := q.dev.net.pick(full)
	for i, l := range q.lines {
		if l.list.Len() > 0 {
			if left == 0 {
				return i
			}
			left--
		}
	}
	panic("soft: no completion") // stored says that there is one
}

func (q *queue) add(l *line, c provider.Completion, wakes bool) {
	if q.stored >= q.depth {
		q.overrun = true
	}
	l.list.Append(c)
	q.stored++
	if q.armed && (wakes || !q.solicited) {
		q.disarm()
		q.ring()
	}
}

func (q *queue) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(q.evfd, one[:]) // it can only be full, and is readable then
}

// Arm makes the descriptor readable at the next completion.
func (q *queue) Arm(solicited bool) error {
	if !q.armed {
		q.dev.armed++
	}
	q.armed, q.solicited = true, solicited
	q.dev.pump() // sets the alarm
	return nil
}

func (q *queue) disarm() {
	if q.armed {
		q.dev.armed--
	}
	q.armed = false
}

// Descriptor is readable when there is something to poll for.
func (q *queue) Descriptor() int { return q.epfd }

// Acknowledge takes the event.
func (q *queue) Acknowledge() error {
	var b [8]byte
	_, _ = unix.Read(q.evfd, b[:]) // empty: the network was it
	return nil
}

// Close closes the queue.
func (q *queue) Close() error {
	if q.users > 0 {
		return provider.ErrBusy
	}
	q.disarm()
	delete(q.dev.queues, q)
	q.release()
	return nil
}
