package engine

import (
	"sync/atomic"
	"syscall"
	"time"
)

// order makes other threads execute a barrier. There is one for the process, as the system call
// (membarrier on Linux) is for the process.
var order ordering

type ordering struct {
	can   atomic.Bool // settle can be called
	asked atomic.Bool // the process has registered, or is registering, for the system call
}

// ready reports whether settle can be called. The first call registers the process, which takes
// the system 3 to 40 ms. The process cannot end meanwhile, so this is not for programs that hardly
// call.
func (o *ordering) ready() bool {
	if !o.can.Load() && !o.asked.Load() && o.asked.CompareAndSwap(false, true) {
		go func() { o.can.Store(announceBarriers() == 0) }()
	}
	return o.can.Load()
}

// settle returns when every thread of the process has executed a barrier since the call. Stores
// before the barrier are seen, and loads after it are new.
func (o *ordering) settle() {
	switch barrierCall() {
	case 0:
		return
	case syscall.EPERM: // not registered: the process was restarted from an image
		o.can.Store(false)
		o.asked.Store(false)
	default: // forbidden by now
		o.can.Store(false)
	}
	time.Sleep(time.Millisecond) // stores are seen by themselves within that time
}

// barrierCall is barrier; tests make it fail.
var barrierCall = barrier
