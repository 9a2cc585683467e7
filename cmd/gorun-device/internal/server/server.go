// Package server is the offload process behind its rank: it takes commands from the ring of package
// internal/offload, has a device carry them out, and obeys the orders that come on the socket.
//
//	socket --- orders ---> control goroutine: the machine of package phase
//	                         | jobs        ^ what has happened
//	                         v             |
//	ring ---- commands --> worker: the one goroutine that uses the device
//	                         ^ parts of memories
//	                         |
//	                       capture or restore: package cr/image
//
// A capture is of objects: the texts of programs, kernels, memories with their numbers. So another device, of another kind and
// another library, can take it. Texts are compiled again.
//
// The process ends when the socket does, which is when the rank has ended, even in the middle of a kernel: nobody is left to
// whom its result means anything.
package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/phase"
)

// server is the control goroutine's.
type server struct {
	conn    net.Conn
	ring    *offload.Shared
	worker  *worker
	machine phase.Machine
	events  chan phase.Event
	orders  chan offload.Order
	how     captureOptions // of the last order to capture
	capture *capturing
	greeted bool
	info    offload.Info
	exit    bool
}

// Options of a process.
type Options struct {
	Restore string // the capture that the device begins with; it takes commands after an order to resume then
	Share   bool   // it asks for memory before it uses more of the device's than Room, see room
	Room    int64
}

// Serve drives a device for the rank at the other end of conn, a socket that keeps packets apart, until the rank
// has ended or orders the end. open opens the device, on the thread that will use it; its Info has the memory that may be used. The memory of ring stays the
// caller's. If Serve has returned, the process is to exit: a kernel may still run.
func Serve(conn net.Conn, ring *offload.Shared, open func() (driver.Queue, offload.Info, error), opt Options) error {
	s := &server{conn: conn, ring: ring, events: make(chan phase.Event, 16), orders: make(chan offload.Order)}
	if err := s.start(open, opt); err != nil {
		return errors.Join(err, s.answer(offload.Answer{Op: offload.Hello, Version: offload.Version, Error: err.Error()}))
	}
	go s.listen()
	if opt.Restore == "" {
		s.step(phase.Event{Type: phase.EvStart, Head: ring.Done()})
	} else {
		s.step(phase.Event{Type: phase.EvRestore, Head: ring.Done(), Where: opt.Restore})
	}
	for !s.exit {
		select {
		case o := <-s.orders:
			s.obey(o)
		case e := <-s.events:
			s.step(e)
		}
	}
	return nil
}

// start opens the device and starts the worker.
func (s *server) start(open func() (driver.Queue, offload.Info, error), opt Options) error {
	if done, taken := s.ring.Done(), s.ring.Taken(); done != taken {
		return fmt.Errorf("commands %d to %d were begun by an offload process that has died; restart from a snapshot", done+1, taken)
	}
	s.worker = newWorker(s.ring, func(err error) { s.events <- phase.Event{Type: phase.EvFault, Err: err.Error()} })
	s.worker.room.open(opt, func(used, need int64) { s.answer(offload.Answer{Op: offload.Room, Memory: used, Need: need}) })
	go s.worker.run()
	return s.worker.do(func() error {
		q, info, err := open()
		s.worker.objects.queue, s.info = q, info
		if opt.Share || os.Getenv(offload.EnvMemory) != "" {
			s.worker.room.memory = int64(info.Memory)
		}
		if err == nil {
			pin(q, s.ring)
		}
		return err
	})
}

// pin pins staging where the device gains by it. Where that is not allowed, say for the limit of locked memory, copies are slower.
func pin(q driver.Queue, ring *offload.Shared) {
	p, ok := q.(driver.Pinner)
	if !ok {
		return
	}
	staging, err := ring.Part(0, offload.StagingBytes)
	if err == nil {
		err = p.Pin(staging)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun-device: copies to and from the device are slower than they could be:", err)
	}
}

// listen reads orders until the rank has ended.
func (s *server) listen() {
	buf := make([]byte, offload.MaxPacket)
	for {
		n, err := s.conn.Read(buf)
		if err != nil || n == 0 {
			s.events <- phase.Event{Type: phase.EvGone}
			return
		}
		o, err := offload.ParseOrder(buf[:n])
		if err != nil {
			o = offload.Order{Op: err.Error()}
		}
		s.orders <- o
	}
}

var orderTypes = map[string]phase.EventType{offload.OrderPause: phase.EvPause, offload.OrderCapture: phase.EvCapture, offload.OrderResume: phase.EvResume,
	offload.OrderRevert: phase.EvRevert, offload.OrderEnd: phase.EvEnd}

// obey makes an event of an order.
func (s *server) obey(o offload.Order) {
	if o.Op == offload.OrderLate {
		s.step(phase.Event{Type: phase.EvLate, Attempt: o.Attempt, Err: s.worker.waitsFor()})
		return
	}
	if o.Op == offload.OrderRoom {
		s.worker.later(func() { s.worker.room.grant(o.Bytes, o.Error) })
		return
	}
	t, ok := orderTypes[o.Op]
	if !ok {
		s.answer(offload.Answer{Op: s.machine.State().String(), Attempt: o.Attempt, Error: fmt.Sprintf("no order %q", o.Op)})
		return
	}
	if t == phase.EvCapture {
		s.how = captureOptions{o.Skip, o.Passing}
	}
	s.step(phase.Event{Type: t, Attempt: o.Attempt, Where: o.Path, End: o.End})
}

// step feeds the machine and does what it says.
func (s *server) step(e phase.Event) {
	before := s.machine.State()
	actions := s.machine.Step(e)
	if now := s.machine.State(); now != before {
		s.ring.SetState(states[now])
	}
	for _, a := range actions {
		s.do(a)
	}
}

var states = map[phase.State]offload.State{phase.Starting: offload.Starting, phase.Running: offload.Running, phase.Pausing: offload.Pausing, phase.Paused: offload.Paused,
	phase.Capturing: offload.Capturing, phase.Captured: offload.Captured, phase.Restoring: offload.Starting, phase.Lost: offload.Lost, phase.Ended: offload.Ended}

func (s *server) do(a phase.Action) {
	w := s.worker
	switch a.Type {
	case phase.ActTake:
		w.later(func() { w.taking = true })
	case phase.ActDrain:
		w.later(func() { // between two batches the device is idle
			w.taking = false
			s.events <- phase.Event{Type: phase.EvIdle, Attempt: a.Attempt, Head: w.ring.Done()}
		})
	case phase.ActCapture:
		s.capture = beginCapture(w, a.Where, s.machine.Head(), s.how, func(c *capturing) { s.events <- captured(c, a.Attempt) })
	case phase.ActDiscard:
		if err := s.capture.discard(); err != nil {
			s.answer(offload.Answer{Op: s.machine.State().String(), Attempt: a.Attempt, Error: err.Error()})
		}
	case phase.ActRestore:
		go func() { s.events <- restored(w, a) }()
	case phase.ActTell:
		s.tell(a)
	case phase.ActMark:
		s.ring.Fail(max(s.ring.Done()+1, 1), a.Err)
	case phase.ActExit:
		s.exit = true
	}
}

func captured(c *capturing, attempt uint32) phase.Event {
	if c.err != nil {
		return phase.Event{Type: phase.EvCaptureFailed, Attempt: attempt, Err: c.err.Error()}
	}
	return phase.Event{Type: phase.EvCaptured, Attempt: attempt, Bytes: c.bytes}
}

func restored(w *worker, a phase.Action) phase.Event {
	head, bytes, err := restore(w, a.Where)
	if err != nil {
		return phase.Event{Type: phase.EvRestoreFailed, Attempt: a.Attempt, Err: err.Error()}
	}
	return phase.Event{Type: phase.EvRestored, Attempt: a.Attempt, Head: head, Bytes: bytes}
}

// tell answers. The first answer is the greeting.
func (s *server) tell(a phase.Action) {
	answer := offload.Answer{Op: a.State.String(), Attempt: a.Attempt, Error: a.Err, Taken: a.Head, Bytes: a.Bytes}
	if a.State == phase.Paused {
		answer.Memory = s.worker.room.used.Load()
	}
	if !s.greeted {
		s.greeted = true
		answer.Op, answer.Version, answer.Info = offload.Hello, offload.Version, &s.info
	}
	if err := s.answer(answer); err != nil && !errors.Is(err, io.EOF) {
		s.exit = true // the rank has ended: listen will say so, but nothing is to be said any more
	}
}

func (s *server) answer(a offload.Answer) error {
	p, err := offload.Packet(a)
	if err != nil {
		return err
	}
	_, err = s.conn.Write(p)
	return err
}
