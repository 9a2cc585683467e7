package rpi

import (
	"sync/atomic"
	"syscall"
	"time"
)

// order puts barriers into other threads. There is one for the process, as what it
// asks of the system (Linux: membarrier) is for the process.
var order ordering

type ordering struct {
	can   atomic.Bool // the system does it
	asked atomic.Bool // it was told, or is being told, that it will have to
}

// ready reports whether settle can be called. It asks the system, which takes it 3 to
// 40 ms, in which the process cannot end: it is not for programs that hardly call.
func (o *ordering) ready() bool {
	if !o.can.Load() && !o.asked.Load() && o.asked.CompareAndSwap(false, true) {
		go func() { o.can.Store(announceBarriers() == 0) }()
	}
	return o.can.Load()
}

// settle returns when every thread of the process has had a barrier since it was
// called: what it stored before is seen, and what it loads later is newer.
func (o *ordering) settle() {
	switch barrierCall() {
	case 0:
		return
	case syscall.EPERM: // come back from an image, as another process
		o.can.Store(false)
		o.asked.Store(false)
	default: // forbidden since
		o.can.Store(false)
	}
	time.Sleep(time.Millisecond) // within which stores are seen by themselves
}

// barrierCall is barrier; tests make it fail.
var barrierCall = barrier
