package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/rpi"
)

// driver carries out the actions of a rank's protocol machine. It is one goroutine. The reader, the writer of
// an image and the program only put events into its inbox.
type driver struct {
	j       *Job
	m       *ckpt.Rank
	modules []rpi.Module // the engine's
	coming  coming       // on the way into another incarnation
	join    *transports  // those of that, while it is not there; see comeback.go

	mu     sync.Mutex
	inbox  []posted
	waiter rpi.Waiter
	ready  chan struct{} // holds a token while the inbox may be non-empty

	incarnation uint64
	due         []ckpt.RankEvent // answers of actions, for after the actions of this step
	attempt     uint32           // of the newest action; every answer names it

	closed   bool // the gate is ours
	flushing bool // EvFlushed is owed
	draining bool // EvProgress is wanted
	settled  bool // Ready: nothing may arrive any more
	awaited  bool // a checkpoint has waited for the program to register something

	write *writer // the image on its way to storage, nil if none
}

// origin is the attempt that something belongs to. Every incarnation numbers its attempts from the beginning, and a process
// may live through several.
type origin struct {
	incarnation uint64
	attempt     uint32
}

// posted is an event from outside the driver.
type posted struct {
	ev          ckpt.RankEvent
	incarnation uint64
}

// writer is one image being written behind the program.
type writer struct {
	snap    Snapshot
	origin  origin
	cancel  chan struct{}
	started bool
}

func newDriver(j *Job, c *Config) *driver {
	return &driver{j: j, m: newMachine(c.Start), modules: c.Modules, waiter: c.Waiter,
		incarnation: c.Start.Incarnation, ready: make(chan struct{}, 1)}
}

// read feeds the machine from the link until the link breaks.
func (d *driver) read() {
	for {
		m, err := d.j.link.Recv()
		if err != nil {
			d.j.lost(fmt.Errorf("rank %d: lost the launcher: %w", d.j.Rank, err))
			return
		}
		switch {
		case m.Kind == oob.Look:
			go d.look(&m)
			continue
		case m.Kind == oob.Held && m.Incarnation == d.j.Incarnation():
			d.j.holds.held(m.A)
			continue
		case m.Kind == oob.Offload: // of any incarnation: it is about processes that outlive incarnations
			d.j.devices.hear(&m)
			continue
		case m.Kind == oob.Health:
			if m.Incarnation == d.j.Incarnation() {
				d.j.health.hear(&m, d.j.Size)
			}
			continue
		}
		d.put(posted{ckpt.RankEvent{Type: ckpt.EvMsg, Msg: m}, m.Incarnation})
	}
}

// tell puts an event that belongs to an attempt into the inbox.
func (d *driver) tell(o origin, ev ckpt.RankEvent) {
	ev.Attempt = o.attempt
	d.put(posted{ev, o.incarnation})
}

func (d *driver) put(p posted) {
	select {
	case <-d.j.ended: // then so are the transports, and the waiter with them
		return
	default:
	}
	d.mu.Lock()
	d.inbox = append(d.inbox, p)
	w := d.waiter
	d.mu.Unlock()
	token(d.ready)
	if w != nil {
		w.Wake() // the driver may be waiting for the transports instead
	}
}

// wake wakes the caller that waits for the transports.
func (d *driver) wake() {
	d.mu.Lock()
	w := d.waiter
	d.mu.Unlock()
	if w != nil {
		w.Wake()
	}
}

// setWaiter replaces the engine's waiter. It is nil while the transports are not open.
func (d *driver) setWaiter(w rpi.Waiter) {
	d.mu.Lock()
	before := d.waiter
	d.waiter = w
	d.mu.Unlock()
	if before != w {
		stopWaiter(before)
	}
}

// token leaves one token in a channel of capacity 1.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (d *driver) take() []posted {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.inbox
	d.inbox = nil
	return all
}

func (d *driver) run() {
	for {
		select { // before the look that it announces
		case <-d.ready:
		default:
		}
		for _, p := range d.take() {
			d.handle(&p)
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

func (d *driver) handle(p *posted) {
	kind := p.ev.Msg.Kind // 0 in other events
	switch {
	case kind == oob.Start:
		d.comeBack(&p.ev.Msg)
	case kind == oob.Input:
		token(d.j.noted)
	case p.incarnation != d.incarnation:
	case d.coming != there: // the head begins nothing before all are up
		switch {
		case d.coming == joining && (kind == oob.Peers || kind == oob.Routes):
			d.rejoin(&p.ev.Msg)
		case d.coming == joined && kind == oob.Running:
			d.goOn()
		case d.coming == joined && kind == oob.Bookmark: // of a rank that has heard so sooner
			d.step(p.ev)
		}
	case kind == oob.Located:
		if err := located(d.modules, &p.ev.Msg, d.j.Size); err != nil {
			d.j.lost(fmt.Errorf("rank %d: %w", d.j.Rank, err))
			return
		}
		d.wake()
	case kind == oob.Pass:
		d.j.points.pass(p.ev.Msg.A)
	case kind == oob.FinalizeGo:
		// In its turn: the gate is open again when Finalize goes on.
		d.j.finalizeOnce.Do(func() {
			d.j.total = p.ev.Msg.A
			close(d.j.finalized)
		})
	default:
		d.step(p.ev)
	}
}

// receive makes progress while the gate is closed. Every state up to Ready can finish what peers have begun.
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

// step feeds the machine one event and carries out its actions. Then it feeds the answers, so that the actions
// of one step keep their order.
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

// answer queues the outcome of the action being carried out.
func (d *driver) answer(ev ckpt.RankEvent) {
	ev.Attempt = d.attempt
	d.due = append(d.due, ev)
}

// report feeds an event that happens outside a step.
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
		d.arm(a.N)
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
		// The program need not know. The head tells the requesters.
	}
}

// origin is the attempt that the newest action belongs to.
func (d *driver) origin() origin { return origin{d.incarnation, d.attempt} }

// arm may refuse because nothing is registered. It does so only if there is another way to go on, and not the
// first time: a program that has just begun may be about to register, and a restarted one is.
func (d *driver) arm(mode uint64) {
	err := d.j.lacks()
	if errors.Is(err, ErrNothing) && (mode != oob.ModeAuto || d.j.Restarted() || !d.awaited) {
		err, d.awaited = nil, true
	}
	if err != nil {
		d.answer(unable(err))
		return
	}
	d.answer(ckpt.RankEvent{Type: ckpt.EvArmed, N: d.j.points.arm(d.origin())})
}

// unable says why the rank cannot be imaged at a Point.
func unable(err error) ckpt.RankEvent {
	ev := ckpt.RankEvent{Type: ckpt.EvUnable, Err: err.Error()}
	if errors.Is(err, ErrNoBackend) || errors.Is(err, ErrNothing) {
		ev.N = 1
	}
	return ev
}

func (d *driver) capture(data []byte) {
	fail := func(err error) { d.answer(ckpt.RankEvent{Type: ckpt.EvFailed, Err: err.Error()}) }
	var cfg oob.CaptureConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		fail(fmt.Errorf("order to capture: %w", err))
		return
	}
	if cfg.Mode == oob.ModeNative {
		fail(errors.New("a process does not image itself: its agent is of another release of gorun"))
		return
	}
	saved, err := d.j.Engine.Saved()
	if cut := (*engine.CutError)(nil); errors.As(err, &cut) {
		err = d.j.ThroughCollective(cut.Ctx, cut.Rank, cut.Ahead)
	}
	if err != nil {
		fail(err)
		return
	}
	snap, err := d.j.Backend().Capture(cfg, d.j.names.lasting(saved), d.j.points.standing())
	if err != nil {
		fail(err)
		return
	}
	d.write = &writer{snap: snap, origin: d.origin(), cancel: make(chan struct{})}
	if cfg.Hold {
		d.startWriting()
	}
	d.answer(ckpt.RankEvent{Type: ckpt.EvCaptured, N: snap.Bytes()})
}

// open lets the program go on. The image is written only then: before, the disk and the processor belong to
// ranks that are still copying.
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
				d.tell(w.origin, ckpt.RankEvent{Type: ckpt.EvWriting, Size: n})
			}
		}, w.cancel)
		ev := ckpt.RankEvent{Type: ckpt.EvWritten, Size: uint64(info.Size)}
		if err == nil {
			ev.Info, err = json.Marshal(info)
		}
		if err != nil {
			err = nofile.Explain(err, nofile.OfRank(d.j.Size), "")
			ev = ckpt.RankEvent{Type: ckpt.EvFailed, Err: err.Error()}
		}
		d.tell(w.origin, ev)
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

// where describes what the rank is doing, for the error that names it. waits is 1 if it waits for
// other ranks: then another rank is to blame.
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
	text = blocked()
	if text != "" {
		waits = 1
	} else {
		text = waitreport.Standing(waitreport.Dump())
	}
	if d.m.State() == ckpt.Preparing {
		if err := d.j.lacks(); err != nil {
			text += "; " + err.Error()
		}
	}
	return text, waits
}
