package server

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// worker is the goroutine that uses the device, on a thread of its own. It takes commands while it may, and
// does what it is asked to.
type worker struct {
	ring    *offload.Shared
	objects *objects
	jobs    jobs        // run by the worker, between two batches
	failed  func(error) // told when the device itself is at fault; see batch

	room    room
	taking  bool
	first   uint64  // command of the batch
	moved   uint64  // bytes, by the batch
	broken  bool    // a command has failed: the others have no effect
	late    failure // of the batch, not told yet
	command offload.Command
	timed   []timedRun
	offset  time.Duration // from the device's clock to CLOCK_MONOTONIC
}

// failure is a command that was refused.
type failure struct {
	ticket uint64
	err    error
}

// timedRun is a kernel under way whose times the rank wants.
type timedRun struct {
	ticket uint64
	event  driver.Event
}

func newWorker(ring *offload.Shared, failed func(error)) *worker {
	ticket, _ := ring.Failed()
	w := &worker{ring: ring, failed: failed, broken: ticket != 0, offset: 1<<63 - 1}
	w.objects = newObjects(&w.room.used)
	w.jobs.some.L = &w.jobs.mu
	return w
}

// run goes on for as long as the process lives.
func (w *worker) run() {
	runtime.LockOSThread()
	for {
		if job := w.jobs.next(!w.taking || w.room.waits); job != nil {
			job()
		} else if !w.batch() {
			w.ring.WaitTail(w.ring.Taken(), w.jobs.any)
		}
	}
}

// later has the worker do something between two batches, without waiting for it.
func (w *worker) later(job func()) {
	w.jobs.add(job)
	w.ring.Nudge()
}

// do has the worker do something and waits for it.
func (w *worker) do(job func() error) error {
	done := make(chan error, 1)
	w.later(func() { done <- job() })
	return <-done
}

// batchBytes is how much a batch moves, about. The rank empties staging, or fills it, while the next one does.
const batchBytes = 256 << 10

// batch takes what there is in the ring, waits until the device has done it, and says so. It tells whether
// there was anything.
func (w *worker) batch() bool {
	first, tail := w.ring.Taken()+1, w.ring.Tail()
	if tail < first {
		return false
	}
	if tail-w.ring.Done() > w.ring.Room() {
		w.taking = false
		w.failed(fmt.Errorf("the rank has put command %d where %d is not done: the ring is damaged", tail, w.ring.Done()+1))
		return true
	}
	w.first, w.moved = first, 0
	for t := first; t <= tail; t++ {
		if w.awaitsRoom(t) {
			if tail = t - 1; tail < first {
				return true
			}
			break
		}
		w.ring.SetTaken(t)
		w.take(t)
		if w.moved >= batchBytes {
			tail = t
		}
	}
	w.finish(tail)
	w.tellTimes()
	w.ring.SetDone(tail)
	w.room.spare()
	return true
}

// awaitsRoom reports whether a command is to wait in the ring for memory.
func (w *worker) awaitsRoom(t uint64) bool {
	c := &w.command
	return w.room.shared && !w.broken && w.ring.Get(t, c) == nil && c.Op == offload.Alloc && w.room.lacks(int64(min(c.A[1], 1<<62)))
}

// finish waits until the device has done what the batch has given it, up to command last, and tells what has failed. A device does not tell which command
// that was: it may be the first. So may it be where a later one was refused, as CUDA refuses all calls after a kernel that has failed.
func (w *worker) finish(last uint64) {
	if err := w.objects.queue.Finish(); err != nil {
		w.fail(w.first, fmt.Errorf("commands %d to %d: %w", w.first, last, err))
	} else if w.late.err != nil {
		w.fail(w.late.ticket, w.late.err)
	}
	w.late = failure{}
}

// fail makes the device fail for good. The first failure counts.
func (w *worker) fail(ticket uint64, err error) {
	w.broken = true
	w.ring.Fail(ticket, err.Error())
}

// refuse makes it fail when the batch is finished.
func (w *worker) refuse(ticket uint64, err error) {
	w.broken, w.late = true, failure{ticket, err}
}

// take puts one command in the device's queue.
func (w *worker) take(t uint64) {
	c := &w.command
	err := w.ring.Get(t, c)
	switch {
	case w.broken && err != nil:
	case err != nil:
		w.refuse(t, err)
	case c.Op == offload.Alloc || c.Op == offload.Build:
		w.finish(t) // what fails there is not of this command
		w.create(t, c)
	case w.broken:
	default:
		if err := w.carryOut(t, c); err != nil {
			w.refuse(t, fmt.Errorf("command %d, %v: %w", t, c.Op, err))
		}
	}
}

// create makes a memory or a kernel, and answers in the slot if it cannot.
func (w *worker) create(t uint64, c *offload.Command) {
	at, room := c.A[3], c.A[4]
	if c.Op == offload.Build {
		at, room = c.A[1], c.A[5]
	}
	var err error
	switch _, why := w.ring.Failed(); {
	case w.broken:
		err = fmt.Errorf("the device has failed: %s", why)
	case c.Op == offload.Alloc:
		if err = w.room.enough(int64(min(c.A[1], 1<<62))); err == nil {
			err = w.objects.alloc(c.A[0], c.A[1], t)
		}
	default:
		err = w.build(t, c)
	}
	if err != nil {
		w.ring.Refuse(t, at, room, err.Error())
	}
}

func (w *worker) build(t uint64, c *offload.Command) error {
	source, name, options := c.A[2], c.A[3], c.A[4]
	if max(source, name, options) > offload.StagingBytes {
		return fmt.Errorf("a program of %d bytes is longer than staging", source)
	}
	p, err := w.ring.Part(c.A[1], name+options+source)
	if err != nil {
		return err
	}
	text := string(p)
	if err := w.objects.build(c.A[0], text[:name], code{Options: text[name : name+options], Source: text[name+options:]}, t); err != nil {
		return err
	}
	var params []offload.Param
	for _, k := range w.objects.kernels[c.A[0]].kernel.Params() {
		params = append(params, kindOf(k))
	}
	w.ring.SetParams(t, params)
	return nil
}

// kindOf tells the rank what a parameter takes.
func kindOf(p driver.Param) offload.Param {
	switch p.Space {
	case driver.Global, driver.Local, driver.Constant:
		return offload.ParamMemory
	case driver.Private:
		if p.Bytes < int(offload.ParamMemory) {
			return offload.Param(p.Bytes)
		}
	}
	return offload.ParamUnknown
}

// carryOut puts a command in the queue that is no answer's.
func (w *worker) carryOut(t uint64, c *offload.Command) error {
	o := w.objects
	switch c.Op {
	case offload.Write, offload.Read:
		return w.transfer(c)
	case offload.Copy:
		dst, err := o.part(c.A[0], c.A[1], c.A[4])
		if err != nil {
			return err
		}
		src, err := o.part(c.A[2], c.A[3], c.A[4])
		if err != nil {
			return err
		}
		return o.queue.Copy(dst.mem, int64(c.A[1]), src.mem, int64(c.A[3]), int64(c.A[4]))
	case offload.Run:
		event, err := o.run(c)
		if event != nil {
			w.timed = append(w.timed, timedRun{t, event})
		}
		return err
	case offload.Free:
		return o.free(c.A[0])
	case offload.Drop:
		return o.drop(c.A[0])
	}
	return fmt.Errorf("not known here")
}

// transfer copies between staging and a memory.
func (w *worker) transfer(c *offload.Command) error {
	m, err := w.objects.part(c.A[0], c.A[1], c.A[2])
	if err != nil {
		return err
	}
	p, err := w.ring.Part(c.A[3], c.A[2])
	if err != nil {
		return err
	}
	w.moved += c.A[2]
	if c.Op == offload.Write {
		return w.objects.queue.Write(m.mem, int64(c.A[1]), p)
	}
	return w.objects.queue.Read(p, m.mem, int64(c.A[1]))
}

// tellTimes tells the rank when its kernels ran. The device's clock has a begin of its own; where it stands is
// known from kernels that have just ended: the smallest distance counts.
func (w *worker) tellTimes() {
	for _, r := range w.timed {
		begin, end, err := r.event.Times()
		if err != nil {
			w.fail(r.ticket, fmt.Errorf("command %d, run: %w", r.ticket, err))
			r.event.Close()
			continue
		}
		w.offset = min(w.offset, now()-end)
		w.ring.SetTimes(r.ticket, int64(begin+w.offset), int64(end+w.offset))
		r.event.Close()
	}
	w.timed = w.timed[:0]
}

// now reads CLOCK_MONOTONIC.
func now() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// waitsFor says in words what is under way. Anybody may ask.
func (w *worker) waitsFor() string {
	var c offload.Command
	for t := w.ring.Done() + 1; t <= w.ring.Taken(); t++ {
		if err := w.ring.Get(t, &c); err == nil && c.Op == offload.Run {
			return fmt.Sprintf("kernel %s, command %d", w.objects.kernelName(c.A[0]), t)
		}
	}
	return fmt.Sprintf("command %d", w.ring.Done()+1)
}
