package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// drive is one turn of the rank's out-of-band goroutine: an event, or receive
// progress while the gate is closed, or the next piece of an image.
func (r *rank) drive() {
	d := &r.drv
	if d.copying != 0 {
		if r.w.now >= d.copying {
			d.copying = 0
			r.feed(ckpt.RankEvent{Type: ckpt.EvCaptured, N: d.copied.bytes()})
		}
		return // the copy is made with the driver's own hands
	}
	if len(d.inbox) > 0 {
		ev := d.inbox[0]
		d.inbox = d.inbox[1:]
		r.take(ev)
		return
	}
	if w := r.w; w.plan.aborts && w.rng.IntN(40) == 0 && r.hasAttempt() {
		w.seen.aborts++
		r.feed(ckpt.RankEvent{Type: ckpt.EvFailed, Err: "a signal from nowhere"})
		return
	}
	if d.closed && !d.settled {
		r.receive()
		return
	}
	if d.write != nil {
		r.writeOn()
	}
}

func (r *rank) hasAttempt() bool {
	_, live := r.m.Attempt()
	return live
}

// take feeds the machine one event of the inbox.
func (r *rank) take(ev ckpt.RankEvent) {
	w := r.w
	if ev.Type == ckpt.EvMsg && r.travels(&ev.Msg) {
		return
	}
	if ev.Type == ckpt.EvMsg && ev.Msg.Kind == oob.FinalizeGo {
		// In order with the checkpoint's messages: what ends an attempt is done first.
		if ev.Msg.Incarnation == r.inc && r.coming == there && r.app.stage == finishing {
			r.leave()
		}
		return
	}
	if w.breaks(captureBeforeReady) && ev.Type == ckpt.EvMsg && ev.Msg.Kind == oob.Capture && r.m.State() != ckpt.Ready {
		r.capture(ckpt.RankAction{Attempt: ev.Msg.Attempt, Data: ev.Msg.Data})
		return
	}
	if ev.Type == ckpt.EvMsg && ev.Msg.Kind == oob.Close && r.m.State() == ckpt.Preparing && ev.Msg.A == oob.ModeNative {
		w.seen.fellBack++
	}
	r.do(r.m.Step(ev))
}

// feed gives the machine the answer to an action of the present attempt.
func (r *rank) feed(ev ckpt.RankEvent) {
	ev.Attempt = r.drv.attempt
	r.do(r.m.Step(ev))
}

func (r *rank) receive() {
	d, w := &r.drv, r.w
	r.mod.deaf = w.breaks(deafBeforeDraining) && !d.draining
	moved := r.e.Step()
	if d.flushing && (r.e.Quiet() || w.breaks(flushSkipped) || w.breaks(countsOnLeaving)) {
		d.flushing = false
		sent := slices.Clone(r.e.Sent())
		if w.breaks(countsOnLeaving) {
			w.uncount(r.id, sent)
		}
		w.told[r.id] = sent
		r.feed(ckpt.RankEvent{Type: ckpt.EvFlushed, Sent: sent})
		if peer := (r.id + 1) % w.np; w.breaks(bookmarkGuessed) && !w.plan.sparse && peer != r.id {
			r.do(r.m.Step(ckpt.RankEvent{Type: ckpt.EvMsg, Msg: oob.Msg{Kind: oob.Bookmark, From: int32(peer), To: int32(r.id),
				Incarnation: r.inc, Attempt: d.attempt, A: r.e.Received()[peer]}}))
		}
	}
	if d.closed && !d.settled && !d.flushing && w.breaks(framesWhileClosed) && w.rng.IntN(4) == 0 {
		r.openGate() // which offers what waits
		r.closeGate()
		r.quiesce()
	}
	if d.draining && moved && !d.settled {
		if w.breaks(repliesWhileDraining) {
			r.openGate()
			r.closeGate()
			r.quiesce()
		}
		r.feed(ckpt.RankEvent{Type: ckpt.EvProgress, Recv: r.counted()})
	}
}

// counted is what the machine is told of the received counts.
func (r *rank) counted() []uint64 {
	recv := r.e.Received()
	if r.w.breaks(drainCutShort) {
		recv = slices.Clone(recv)
		for p := range recv {
			if sent := r.w.told[p]; p != r.id && sent != nil {
				recv[p] = sent[r.id]
			}
		}
	}
	return recv
}

// do carries actions out, in order.
func (r *rank) do(actions []ckpt.RankAction) {
	for _, a := range actions {
		r.drv.attempt = a.Attempt
		r.act(a)
	}
}

func (r *rank) act(a ckpt.RankAction) {
	d, w := &r.drv, r.w
	switch a.Type {
	case ckpt.ActSend:
		w.send(a.Msg)
		return
	case ckpt.ActArm:
		r.arm(a)
	case ckpt.ActRunTo:
		r.points.target = a.N
		if w.breaks(targetTooLow) {
			r.points.target = a.N - 1
		}
	case ckpt.ActCloseGate:
		if !w.breaks(gateNotTaken) {
			r.closeGate()
		}
		d.closed, d.settled = true, false
		w.seen.closed(r)
		w.logf("rank %d closes its gate", r.id)
		r.feed(ckpt.RankEvent{Type: ckpt.EvClosed})
	case ckpt.ActFlush:
		r.quiesce()
		if w.breaks(turnAtGate) && r.caller.where == atGate && r.caller.turn {
			r.openGate()
			r.closeGate()
			r.mod.Quiesce()
		}
		d.flushing = true
	case ckpt.ActDrain:
		d.draining = true
		r.feed(ckpt.RankEvent{Type: ckpt.EvProgress, Recv: r.counted()})
	case ckpt.ActReady:
		d.draining, d.settled = false, true
		w.logf("rank %d is ready", r.id)
	case ckpt.ActCapture:
		r.capture(a)
	case ckpt.ActOpenGate:
		r.open()
	case ckpt.ActDiscard:
		d.write, d.copied, d.copying = nil, nil, 0
	case ckpt.ActWhere:
		r.feed(ckpt.RankEvent{Type: ckpt.EvWhere, Info: []byte(r.where())})
	case ckpt.ActCommitted:
		w.logf("rank %d hears of commit %d", r.id, a.N)
	case ckpt.ActReverted:
		w.logf("rank %d is back: %s", r.id, a.Data)
	}
}

// arm reads the count of Points and orders a stop at the next, in one step.
func (r *rank) arm(a ckpt.RankAction) {
	p := &r.points
	if r.w.plan.unregistered {
		r.feed(ckpt.RankEvent{Type: ckpt.EvUnable, N: 1, Err: "nothing is registered"})
		return
	}
	n := p.entered
	r.w.armLater(func() {
		if n, live := r.m.Attempt(); !live || n != a.Attempt {
			return
		}
		p.armed, p.attempt, p.target, p.told = true, a.Attempt, 0, false
	})
	r.feed(ckpt.RankEvent{Type: ckpt.EvArmed, N: n})
}

func (r *rank) open() {
	d := &r.drv
	if r.mod.deaf = false; !d.closed || !r.w.breaks(pointsStayArmed) {
		r.points.armed = false
	}
	if r.w.breaks(gateNotTaken) && d.closed && !r.e.GateClosed() {
		r.closeGate()
	}
	was := d.closed
	d.closed, d.flushing, d.draining, d.settled = false, false, false, false
	if was {
		r.w.logf("rank %d opens its gate", r.id)
		r.openGate()
	}
}

// capture takes the copy of what is registered, and begins to write it.
func (r *rank) capture(a ckpt.RankAction) {
	w, d := r.w, &r.drv
	var cfg oob.CaptureConfig
	if err := json.Unmarshal(a.Data, &cfg); err != nil {
		w.violate("rank %d: order to capture: %v", r.id, err)
	}
	w.checkCut(r)
	img, err := w.imageOf(r, true)
	if err != nil {
		r.feed(ckpt.RankEvent{Type: ckpt.EvFailed, Err: err.Error()})
		return
	}
	w.logf("rank %d is captured: %d saved messages", r.id, len(img.messages))
	d.copied = img
	d.write = &write{attempt: a.Attempt, img: img, seq: cfg.Seq}
	d.copying = w.now + 1
	if w.breaks(opensBeforeOthers) {
		d.closed = false
		r.openGate()
	}
}

// writeOn writes a piece of the image. Only a whole image is told of.
func (r *rank) writeOn() {
	w, x := r.w, r.drv.write
	ev := ckpt.RankEvent{Attempt: x.attempt}
	switch x.done++; {
	case w.plan.failIO && w.rng.IntN(12) == 0:
		r.drv.write = nil
		ev.Type, ev.Err = ckpt.EvFailed, "no space left on device"
	case x.done < 3:
		ev.Type, ev.Size = ckpt.EvWriting, uint64(x.done)
	default:
		r.drv.write = nil
		w.store.put(x.seq, r.id, x.img)
		w.wrote(x.seq, x.img)
		ev.Type, ev.Size = ckpt.EvWritten, x.img.bytes()
		ev.Info = fmt.Appendf(nil, `{"file":%q,"size":%d}`, ckpt.ImageName(r.id), ev.Size)
	}
	r.do(r.m.Step(ev))
}
