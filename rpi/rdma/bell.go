package rdma

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bell is where the rank sleeps: until notes come, the timer fires, the completion queue has something, or Wake is called.
type bell struct {
	ctl   int // socket for notes
	six   bool
	evfd  int
	tfd   int
	queue int // of the device, which owns it

	heard    atomic.Bool // notes have come, or the timer has fired
	noticed  atomic.Bool // the completion queue's descriptor is readable
	woken    atomic.Bool // Wake has written, and Wait has not read
	stopped  atomic.Bool
	waiting  sync.Mutex // held in Wait
	waking   sync.Mutex // guards evfd against being closed under Wake
	polled   [4]unix.PollFd
	timeout  unix.Timespec
	timerSet bool
}

func (b *bell) init() { b.ctl, b.evfd, b.tfd, b.queue = -1, -1, -1, -1 }

// open makes eventfd and timer.
func (b *bell) open() (err error) {
	if b.tfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		b.tfd = -1
		return os.NewSyscallError("timerfd_create", err)
	}
	b.waking.Lock()
	defer b.waking.Unlock()
	count := uint(0)
	if b.woken.Load() {
		count = 1 // a Wake that found no eventfd
	}
	if b.evfd, err = unix.Eventfd(count, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		b.evfd = -1
		return os.NewSyscallError("eventfd", err)
	}
	return nil
}

// ready lets Wait in.
func (b *bell) ready() { b.stopped.Store(false) }

// shut makes Wait return and stay out, and closes the descriptors.
func (b *bell) shut() {
	b.stopped.Store(true)
	b.Wake()
	b.waiting.Lock()
	defer b.waiting.Unlock()
	b.waking.Lock()
	defer b.waking.Unlock()
	for _, fd := range []int{b.ctl, b.evfd, b.tfd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	b.init()
	b.heard.Store(false)
	b.noticed.Store(false)
	b.timerSet = false
}

// Wait sleeps until something may have arrived, Wake was called, or d is over, if it is not negative.
func (b *bell) Wait(d time.Duration) {
	b.waiting.Lock()
	defer b.waiting.Unlock()
	if b.stopped.Load() || b.heard.Load() || b.noticed.Load() {
		return
	}
	var limit *unix.Timespec
	if d >= 0 {
		b.timeout = unix.NsecToTimespec(int64(d))
		limit = &b.timeout
	}
	for i, fd := range []int{b.evfd, b.ctl, b.tfd, b.queue} {
		b.polled[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	// Through the scheduler: this call blocks.
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&b.polled)), uintptr(len(b.polled)), uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	if errno != 0 {
		return // EINTR
	}
	if b.polled[0].Revents != 0 {
		var count [8]byte
		unix.Read(b.evfd, count[:])
		b.woken.Store(false)
	}
	if b.polled[1].Revents != 0 || b.polled[2].Revents != 0 {
		b.heard.Store(true)
	}
	if b.polled[3].Revents != 0 {
		b.noticed.Store(true)
	}
}

// Yield gives the CPU to peers, which are processes.
func (b *bell) Yield() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Wake makes the present or the next Wait return.
func (b *bell) Wake() {
	if b.woken.Swap(true) {
		return
	}
	b.waking.Lock()
	defer b.waking.Unlock()
	if b.evfd >= 0 {
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // not 0 in any byte order
		unix.Write(b.evfd, one[:])
	}
}

// timer sets the timer, or stops it with 0.
func (b *bell) timer(d time.Duration) {
	if b.tfd >= 0 && (d > 0 || b.timerSet) {
		b.timerSet = d > 0
		_ = unix.TimerfdSettime(b.tfd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil) // it takes any positive time
	}
}
