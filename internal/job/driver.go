package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// driver carries out the actions of a rank's protocol machine. It is one
// goroutine; the reader, the writer of an image and the program only put
// events into its inbox.
type driver struct {
	j      *Job
	m      *ckpt.Rank
	waiter rpi.Waiter

	mu    sync.Mutex
	inbox []ckpt.RankEvent
	ready chan struct{} // holds a token while the inbox may be non-empty

	due     []ckpt.RankEvent // answers of actions, for after the actions of this step
	attempt uint32           // of the newest action; every answer names it

	closed   bool // the gate is ours
	flushing bool // EvFlushed is owed
	draining bool // EvProgress is wanted
	settled  bool // Ready: nothing may arrive any more

	write *writer // the image on its way to storage, nil if none
}

// writer is one image being written behind the program.
type writer struct {
	snap    Snapshot
	attempt uint32
	cancel  chan struct{}
	started bool
}

func newDriver(j *Job, m *ckpt.Rank, w rpi.Waiter) *driver {
	return &driver{j: j, m: m, waiter: w, ready: make(chan struct{}, 1)}
}

// read feeds the machine from the link until the link breaks.
func (d *driver) read() {
	for {
		m, err := d.j.link.Recv()
		if err != nil {
			d.j.lost(fmt.Errorf("rank %d: lost the launcher: %w", d.j.Rank, err))
			return
		}
		if m.Incarnation == d.j.Incarnation {
			d.put(ckpt.RankEvent{Type: ckpt.EvMsg, Msg: m})
		}
	}
}

func (d *driver) put(ev ckpt.RankEvent) {
	select {
	case <-d.j.ended: // so are the transports, and with them the waiter
		return
	default:
	}
	d.mu.Lock()
	d.inbox = append(d.inbox, ev)
	d.mu.Unlock()
	token(d.ready)
	d.waiter.Wake() // the driver may be waiting for the transports instead
}

// token leaves one token in a channel of capacity 1.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (d *driver) take() []ckpt.RankEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	evs := d.inbox
	d.inbox = nil
	return evs
}

func (d *driver) run() {
	for {
		select { // before the look that it announces
		case <-d.ready:
		default:
		}
		for _, ev := range d.take() {
			if ev.Type == ckpt.EvMsg && ev.Msg.Kind == oob.FinalizeGo {
				// In its turn: the gate is open again when Finalize goes on.
				d.j.finalizeOnce.Do(func() { close(d.j.finalized) })
				continue
			}
			d.step(ev)
		}
		if d.closed && !d.settled {
			d.receive()
			continue
		}
		select {
		case <-d.ready:
		case <-d.j.ended:
			return
		}
	}
}

// receive makes progress while the gate is closed: what peers have begun can
// always be finished, in every state up to Ready.
func (d *driver) receive() {
	e := d.j.Engine
	moved := e.Step()
	if d.flushing && e.Quiet() {
		d.flushing = false
		d.report(ckpt.RankEvent{Type: ckpt.EvFlushed, Sent: slices.Clone(e.Sent())})
		moved = true
	}
	if d.draining && moved && !d.settled {
		d.report(ckpt.RankEvent{Type: ckpt.EvProgress, Recv: e.Received()})
	}
	if !moved && len(d.ready) == 0 {
		e.WaitStep(100 * time.Millisecond)
	}
}

// step feeds the machine one event, carries out what it says, and then feeds
// the answers, so that the actions of one step keep their order.
func (d *driver) step(ev ckpt.RankEvent) {
	d.due = append(d.due, ev)
	for len(d.due) > 0 {
		ev := d.due[0]
		d.due = d.due[1:]
		for _, a := range d.m.Step(ev) {
			d.do(a)
		}
	}
}

// answer queues what became of the action being carried out.
func (d *driver) answer(ev ckpt.RankEvent) {
	ev.Attempt = d.attempt
	d.due = append(d.due, ev)
}

// report feeds what has happened since, outside a step.
func (d *driver) report(ev ckpt.RankEvent) {
	ev.Attempt = d.attempt
	d.step(ev)
}

func (d *driver) do(a ckpt.RankAction) {
	j := d.j
	d.attempt = a.Attempt
	switch a.Type {
	case ckpt.ActSend:
		if err := j.link.Send(a.Msg); err != nil {
			j.lost(fmt.Errorf("rank %d: lost the launcher: %w", j.Rank, err))
		}
	case ckpt.ActArm:
		d.arm()
	case ckpt.ActRunTo:
		j.points.runTo(a.N)
	case ckpt.ActCloseGate:
		j.Engine.CloseGate()
		d.closed, d.settled = true, false
		d.answer(ckpt.RankEvent{Type: ckpt.EvClosed})
	case ckpt.ActFlush:
		j.Engine.Quiesce()
		d.flushing = true
	case ckpt.ActDrain:
		d.draining = true
		d.answer(ckpt.RankEvent{Type: ckpt.EvProgress, Recv: j.Engine.Received()})
	case ckpt.ActReady:
		d.draining, d.settled = false, true
	case ckpt.ActCapture:
		d.capture(a.Data)
	case ckpt.ActOpenGate:
		d.open()
	case ckpt.ActDiscard:
		d.discard()
	case ckpt.ActWhere:
		text, waits := d.where()
		d.answer(ckpt.RankEvent{Type: ckpt.EvWhere, N: waits, Info: []byte(text)})
	case ckpt.ActCommitted, ckpt.ActReverted:
		// The program need not know; the head tells whoever asked.
	}
}

func (d *driver) arm() {
	if d.j.Backend() == nil {
		d.answer(ckpt.RankEvent{Type: ckpt.EvFailed, Err: ErrNoBackend.Error()})
		return
	}
	d.answer(ckpt.RankEvent{Type: ckpt.EvArmed, N: d.j.points.arm(d.attempt)})
}

func (d *driver) capture(data []byte) {
	fail := func(err error) { d.answer(ckpt.RankEvent{Type: ckpt.EvFailed, Err: err.Error()}) }
	var cfg oob.CaptureConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		fail(fmt.Errorf("order to capture: %w", err))
		return
	}
	saved, err := d.j.Engine.Saved()
	if err != nil {
		fail(err)
		return
	}
	snap, err := d.j.Backend().Capture(cfg, saved, d.j.points.standing())
	if err != nil {
		fail(err)
		return
	}
	d.write = &writer{snap: snap, attempt: d.attempt, cancel: make(chan struct{})}
	if cfg.Hold {
		d.startWriting()
	}
	d.answer(ckpt.RankEvent{Type: ckpt.EvCaptured, N: snap.Bytes()})
}

// open lets the program go on. Only then is the image written: before, the
// disk and the processor belong to ranks that are still copying.
func (d *driver) open() {
	d.flushing, d.draining = false, false
	if d.closed {
		d.closed = false
		d.j.Engine.OpenGate()
	}
	d.j.points.disarm()
	d.startWriting()
}

func (d *driver) startWriting() {
	w := d.write
	if w == nil || w.started {
		return
	}
	w.started = true
	go func() {
		defer w.snap.Release()
		var last time.Time
		info, err := w.snap.Write(func(n uint64) {
			if now := time.Now(); now.Sub(last) > 50*time.Millisecond {
				last = now
				d.put(ckpt.RankEvent{Type: ckpt.EvWriting, Attempt: w.attempt, Size: n})
			}
		}, w.cancel)
		ev := ckpt.RankEvent{Type: ckpt.EvWritten, Size: uint64(info.Size)}
		if err == nil {
			ev.Info, err = json.Marshal(info)
		}
		if err != nil {
			ev = ckpt.RankEvent{Type: ckpt.EvFailed, Err: err.Error()}
		}
		ev.Attempt = w.attempt
		d.put(ev)
	}()
}

func (d *driver) discard() {
	w := d.write
	d.write = nil
	if w == nil {
		return
	}
	if w.started {
		close(w.cancel)
	} else {
		w.snap.Release()
	}
}

// where says what the rank is doing, for the error that names it, and 1 if it
// waits for other ranks: then it is not the one to blame.
func (d *driver) where() (text string, waits uint64) {
	if n := d.j.points.standing(); n > 0 {
		return fmt.Sprintf("standing at Point %d, protocol state %v", n, d.m.State()), 0
	}
	if d.j.finalizing.Load() {
		return "in Finalize", 0
	}
	blocked := d.j.Engine.Blocked
	if d.closed {
		blocked = d.j.Engine.Closer().Blocked
	}
	if s := blocked(); s != "" {
		return s, 1
	}
	return "computing outside the library", 0
}
