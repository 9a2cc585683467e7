package ofi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/system/fifo"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"golang.org/x/sys/unix"
)

// queue is a completion queue.
type queue struct {
	dev              *Device
	depth            int
	list             fifo.List[provider.Completion]
	overrun          bool
	users            int
	epfd, evfd       int
	armed, solicited bool
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
	for _, fd := range []int{q.evfd, d.tick.fd, d.end.waitFD} {
		if err == nil && fd >= 0 {
			err = unix.EpollCtl(q.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		q.release()
		return nil, fmt.Errorf("ofi: completion queue: %w", err)
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
	if err := q.dev.progress(); err != nil {
		return 0, err
	}
	if q.overrun {
		return 0, provider.ErrOverrun
	}
	n := copy(dst, q.list.Elements())
	q.list.Drop(n)
	if q.dev.armed > 0 {
		q.dev.mayWait()
	}
	return n, nil
}

// mayWait rings the armed queues if libfabric has something that its descriptor does not tell.
func (d *Device) mayWait() {
	if d.end.waitFD < 0 || d.end.mayWait() {
		return
	}
	for q := range d.queues {
		if q.armed {
			q.ring()
		}
	}
}

func (q *queue) add(c provider.Completion, wakes bool) {
	if q.list.Len() >= q.depth {
		q.overrun = true
	}
	q.list.Append(c)
	if q.armed && (wakes || !q.solicited) {
		q.disarm()
		q.ring()
	}
}

// forget drops the completions of a pair.
func (q *queue) forget(number uint32) {
	q.list.Set(slices.DeleteFunc(q.list.Elements(), func(c provider.Completion) bool { return c.QueuePair == number }))
}

func (q *queue) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(q.evfd, one[:]) // it can only be full, and is readable then
}

// Arm makes the descriptor readable at the next completion.
func (q *queue) Arm(solicited bool) error {
	d := q.dev
	if !q.armed {
		d.armed++
	}
	q.armed, q.solicited = true, solicited
	d.tick.set(true)
	d.pump(true)
	d.mayWait()
	return nil
}

func (q *queue) disarm() {
	if q.armed {
		q.dev.armed--
		q.dev.tick.set(q.dev.armed > 0)
	}
	q.armed = false
}

// Descriptor is readable when there is something to poll for.
func (q *queue) Descriptor() int { return q.epfd }

// Acknowledge takes the event.
func (q *queue) Acknowledge() error {
	var b [8]byte
	_, _ = unix.Read(q.evfd, b[:]) // empty: another descriptor was it
	if q.dev.tick.take() {
		q.dev.look = true
	}
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
