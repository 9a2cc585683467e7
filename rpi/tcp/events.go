package tcp

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventsMax bounds what one look at epoll returns.
const eventsMax = 64

// endpoint is what a descriptor belongs to: the listener, the timer, a guest, an attempt, a connection. ready
// goes on with it, and reports whether anything moved.
type endpoint interface {
	ready(events uint32) (moved bool)
}

// slot describes a descriptor. Its serial travels with its events. So an old event is recognised if the
// descriptor was closed and its number used again.
type slot struct {
	ep     endpoint
	serial int32
}

// events is the part of the module that knows epoll: the descriptors, by
// number, and the ways to wait.
type events struct {
	epfd    int
	evfd    int // eventfd, written by Wake
	tfd     int // timerfd, for deadlines
	slots   []slot
	serial  int32
	timerAt time.Time // when tfd fires; zero: not set
	found   [eventsMax]unix.EpollEvent

	// Events that Wait has learned and Poll has not used. Wait fills waited only while nwaited is 0. Poll reads
	// it only while nwaited is not 0.
	waited  [eventsMax]unix.EpollEvent
	nwaited atomic.Int32

	// Wake writes the eventfd only if woken was not set. Wait clears woken after it has emptied the eventfd. So
	// a Wake in between belongs to the Wait that is returning.
	woken   atomic.Bool
	stopped atomic.Bool // Close or Restart wants Wait to be out
	waiting sync.Mutex  // held in Wait
	waking  sync.Mutex  // guards evfd against being closed under Wake
}

// open makes the three descriptors.
func (e *events) open() (err error) {
	if e.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if e.tfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	if err = e.register(e.tfd, nil, unix.EPOLLIN); err != nil {
		return err
	}
	count := uint(0)
	e.waking.Lock()
	defer e.waking.Unlock()
	if e.woken.Load() {
		count = 1 // a Wake that found no eventfd
	}
	if e.evfd, err = unix.Eventfd(count, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	return e.register(e.evfd, nil, unix.EPOLLIN)
}

// shut makes Wait return and stay out, and closes every descriptor.
func (e *events) shut() {
	e.stopped.Store(true)
	e.Wake()
	e.waiting.Lock()
	defer e.waiting.Unlock()
	e.waking.Lock()
	defer e.waking.Unlock()
	for fd, s := range e.slots {
		if s.serial != 0 {
			unix.Close(fd)
		}
	}
	if e.epfd >= 0 {
		unix.Close(e.epfd)
	}
	e.slots = nil
	e.epfd, e.evfd, e.tfd = -1, -1, -1
	e.timerAt = time.Time{}
	e.nwaited.Store(0)
}

// register takes charge of a descriptor. It closes the descriptor if that fails.
func (e *events) register(fd int, ep endpoint, mask uint32) error {
	for fd >= len(e.slots) {
		e.slots = append(e.slots, slot{})
	}
	e.serial = max(e.serial+1, 1)
	e.slots[fd] = slot{ep, e.serial}
	err := unix.EpollCtl(e.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: e.serial})
	if err != nil {
		e.unregister(fd)
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// interest changes the events that are waited for.
func (e *events) interest(fd int, mask uint32) error {
	err := unix.EpollCtl(e.epfd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: e.slots[fd].serial})
	return os.NewSyscallError("epoll_ctl", err)
}

// adopt gives a descriptor to another endpoint.
func (e *events) adopt(fd int, ep endpoint) { e.slots[fd].ep = ep }

// unregister closes a descriptor, which takes it out of epoll.
func (e *events) unregister(fd int) {
	e.slots[fd] = slot{}
	unix.Close(fd)
}

// look asks epoll which descriptors are ready, and goes on with them.
func (e *events) look() bool {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.epfd),
			uintptr(unsafe.Pointer(&e.found)), eventsMax, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return false
		}
		return e.handle(e.found[:n])
	}
}

// learned goes on with the descriptors that Wait has found ready.
func (e *events) learned() bool {
	n := e.nwaited.Load()
	if n == 0 {
		return false
	}
	moved := e.handle(e.waited[:n])
	e.nwaited.Store(0)
	return moved
}

func (e *events) handle(found []unix.EpollEvent) (moved bool) {
	for _, ev := range found {
		s := e.slots[ev.Fd]
		if s.ep != nil && s.serial == ev.Pad && s.ep.ready(ev.Events) {
			moved = true
		}
	}
	return moved
}

// Wait sleeps in the kernel until a descriptor is ready, a handshake's deadline has passed, or Wake is called.
// It also returns when d is over, rounded up to milliseconds. Descriptors are level-triggered. So what arrives
// after the last Poll and before Wait ends the Wait at once.
func (e *events) Wait(d time.Duration) {
	e.waiting.Lock()
	defer e.waiting.Unlock()
	if e.stopped.Load() || e.nwaited.Load() > 0 {
		return
	}
	ms := -1
	if d >= 0 {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	// Through the scheduler, unlike all other calls: this one blocks.
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.epfd),
		uintptr(unsafe.Pointer(&e.waited)), eventsMax, uintptr(ms), 0, 0)
	if errno != 0 {
		return // EINTR; or an epoll descriptor that did not survive an image
	}
	for _, ev := range e.waited[:n] {
		if int(ev.Fd) == e.evfd {
			var count [8]byte
			unix.Read(e.evfd, count[:])
			e.woken.Store(false)
		}
	}
	e.nwaited.Store(int32(n))
}

// Yield gives the CPU to peers, which are processes. runtime.Gosched would not: it would wake another thread of
// this process to look for work.
func (e *events) Yield() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Wake implements rpi.Waiter.
func (e *events) Wake() {
	if e.woken.Swap(true) {
		return
	}
	e.waking.Lock()
	defer e.waking.Unlock()
	if e.evfd >= 0 {
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // not 0 in any byte order
		unix.Write(e.evfd, one[:])
	}
}

// tick is how long the timer runs at most. So it is never late by more than a process has stood still, see excuse.
const tick = time.Second

// alarm makes sure that the timer fires no later than t, and within a tick. A longer wait sets it
// again.
func (e *events) alarm(t time.Time) {
	now := time.Now()
	if next := now.Add(tick); t.After(next) {
		t = next
	}
	if !e.timerAt.IsZero() && !t.Before(e.timerAt) {
		return
	}
	e.timerAt = t
	d := max(t.Sub(now), 1)
	unix.TimerfdSettime(e.tfd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

// rang empties the timer. It returns when that was to fire.
func (e *events) rang() (due time.Time) {
	var count [8]byte
	unix.Read(e.tfd, count[:])
	due, e.timerAt = e.timerAt, time.Time{}
	return due
}
