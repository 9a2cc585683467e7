package server

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// room is how much of the device's memory may be used. A process that shares the device with others (-devices share) asks before it uses more
// than it was granted: an Alloc that lacks room waits in the ring, where it is memory of the rank, so the process can be paused and captured meanwhile. Between
// that and the answer nothing is told. The worker uses it, but for used.
type room struct {
	shared  bool
	tell    func(used, need int64)
	memory  int64        // of the device, if that is a limit; 0: it is none
	used    atomic.Int64 // bytes of memories
	granted int64
	waits   bool          // nothing is taken before an answer
	asked   int64         // for so much in all; 0: nothing
	refused error         // the answer to that
	then    chan struct{} // closed by the answer; nil: the worker looks
}

func (r *room) open(opt Options, tell func(used, need int64)) {
	r.shared, r.granted, r.tell = opt.Share, opt.Room, tell
}

// enough refuses what the device will never have.
func (r *room) enough(bytes int64) error {
	if err := r.refused; err != nil {
		r.refused = nil
		return err
	}
	if r.memory > 0 && bytes > r.memory-r.used.Load() {
		return fmt.Errorf("%w: %d bytes beside %d that are used; it has %d", driver.ErrMemory, bytes, r.used.Load(), r.memory)
	}
	return nil
}

// lacks reports whether so many further bytes are to be waited for, and asks for them. The job that brings the answer has the worker look again.
func (r *room) lacks(bytes int64) bool {
	need := r.used.Load() + bytes
	if need <= r.granted || r.refused != nil || r.memory > 0 && need > r.memory {
		return false
	}
	r.waits = true
	if r.asked != need {
		r.asked = need
		r.granted = r.used.Load()
		r.tell(r.granted, need)
	}
	return true
}

// grant takes the answer.
func (r *room) grant(bytes int64, refused string) {
	r.granted, r.waits, r.asked = bytes, false, 0
	if refused != "" {
		r.granted, r.refused = r.used.Load(), errors.New(refused)
	}
	if r.then != nil {
		close(r.then)
		r.then = nil
	}
}

// reserve waits until so many further bytes may be used. Anybody but the worker may call it, before commands are taken.
func (w *worker) reserve(bytes int64) error {
	r, answered := &w.room, make(chan struct{})
	err := w.do(func() error {
		if r.shared && r.lacks(bytes) {
			r.then = answered
		} else {
			close(answered)
		}
		return nil
	})
	<-answered
	return errors.Join(err, w.do(func() error { return r.enough(bytes) }))
}

// spare gives back what was freed.
func (r *room) spare() {
	if used := r.used.Load(); r.shared && r.asked == 0 && used < r.granted {
		r.granted = used
		r.tell(used, 0)
	}
}
