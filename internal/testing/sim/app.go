package sim

import (
	"encoding/binary"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// program lets the program do one thing.
func (r *rank) program() {
	a := &r.app
	if a.broken != nil {
		return
	}
	switch a.stage {
	case starting:
		if a.released {
			r.beginRound(-1)
			a.stage = prologue
		}
	case prologue, running:
		t := &a.threads[r.w.rng.IntN(len(a.threads))]
		if r.run(t); a.broken != nil {
			return
		}
		for i := range a.threads {
			if !a.threads[i].finished() {
				return
			}
		}
		if a.round+1 == r.w.prog.rounds && r.holder.state == asking {
			return // it is not yet over for that goroutine
		}
		r.endRound()
	case atPoint:
		r.point()
	}
}

func (t *thread) finished() bool {
	return t.next == len(t.ops) && !t.calling && t.call == nil && len(t.pending) == 0
}

func (r *rank) beginRound(k int) {
	a, g := &r.app, r.w.prog
	a.sum = 0
	for i := range a.threads {
		t := &a.threads[i]
		t.ops, t.next = g.ops[r.id][k+1][i], 0
		// The rest of the last round is due in this one.
		t.pending, t.over = append(t.pending, t.over...), nil
	}
}

// endRound checks the result of the round, and goes on to the next Point or to
// Finalize.
func (r *rank) endRound() {
	a, g := &r.app, r.w.prog
	if a.stage == prologue {
		a.stage = atPoint
		return
	}
	a.acc = nextRound(a.acc) + a.sum
	a.round++
	if want := g.acc[r.id][a.round]; a.acc != want {
		r.w.violate("rank %d: digest after round %d is %016x, not %016x as in an undisturbed run", r.id, a.round-1, a.acc, want)
	}
	if a.round < g.rounds {
		a.stage = atPoint
		return
	}
	a.stage, r.holder.state = finishing, notHolding // Finalize ends a section
	r.w.logf("rank %d enters Finalize", r.id)
	r.wantFinalize()
	if r.w.breaks(finalizeNotHeld) {
		r.leave()
	}
}

func (r *rank) wantFinalize() {
	r.w.send(oob.Msg{Kind: oob.FinalizeWant, From: int32(r.id), To: oob.Head, Incarnation: r.inc})
}

// leave ends the process after Finalize.
func (r *rank) leave() {
	if r.drv.closed || r.drv.write != nil || r.agent.busy() {
		r.w.violate("rank %d leaves Finalize in the middle of a checkpoint", r.id)
	}
	r.app.stage, r.left = gone, true
	r.w.logf("rank %d is gone", r.id)
	r.w.put(int32(r.id), oob.Head, oob.Msg{Kind: oob.Exit, From: int32(r.id), To: oob.Head})
	if slow := r.w.ranks[r.w.rng.IntN(r.w.np)]; !slow.left && r.w.head.final { // it sees our connection close
		r.w.send(oob.Msg{Kind: oob.Failure, From: int32(slow.id), To: oob.Head, Incarnation: slow.inc, B: 1})
	}
}

// point enters the next Point, stands there or leaves it.
func (r *rank) point() {
	p := &r.points
	if !p.standing {
		if p.entered == 0 && r.e.GateClosed() {
			return // the first Point gives messages to the engine, which is not ours
		}
		p.entered++
		p.standing = true
		if p.entered == 1 {
			r.firstPoint()
		}
	}
	if p.armed && (p.target == 0 || p.entered == p.target) {
		r.announce()
		return
	}
	p.standing = false
	r.app.stage = running
	r.beginRound(r.app.round)
}

// firstPoint hands the messages over that were saved with the image.
func (r *rank) firstPoint() {
	img := r.w.origin
	if img == nil || r.w.breaks(savedForgotten) {
		return
	}
	r.e.Inject(img[r.id].messages)
}

// announce tells the driver, once, that the program stands where it was to stop.
func (r *rank) announce() {
	p := &r.points
	if p.target == 0 || p.told || r.e.GateClosed() {
		return // with the gate closed it would wait for the answer
	}
	if !r.linesGone() {
		return
	}
	p.told = true
	ev := ckpt.RankEvent{Type: ckpt.EvAtPoint, Attempt: p.attempt, N: p.entered}
	if !r.w.breaks(pendingNotSeen) {
		if pending := r.e.Pending(); len(pending) > 0 {
			ev = ckpt.RankEvent{Type: ckpt.EvUnable, Attempt: p.attempt, Err: "pending at a Point: " + pending[0]}
			r.w.seen.pendingAtPoint++
		}
	}
	r.w.logf("rank %d stands at Point %d %s", r.id, p.entered, ev.Err)
	r.drv.inbox = append(r.drv.inbox, ev)
}

// linesGone reports whether what this rank has to send has left, lines of teams among
// it: engine.AtPoint waits for these.
func (r *rank) linesGone() bool {
	if r.w.breaks(linesNotAwaited) {
		return true
	}
	r.e.Progress()
	for _, c := range r.mod.out {
		if c.refused && r.w.ranks[c.to].alive {
			return false
		}
	}
	return true
}

// run lets a goroutine take its next step. A call begins only with the gate
// open; the engine's lock sees to that, so that a goroutine has no moment
// between looking at the gate and being inside.
func (r *rank) run(t *thread) {
	if r.e.GateClosed() {
		if t.window && r.drv.closed && !r.drv.settled {
			// Mutant: it has looked at the gate before it closed.
			r.openGate()
			r.call(t)
			r.closeGate()
			r.quiesce()
		}
		t.window = false
		return
	}
	if r.w.breaks(gateWindow) && !t.window && t.call == nil && t.next < len(t.ops) && r.w.rng.IntN(2) == 0 {
		t.window = true
		return
	}
	t.window = false
	r.call(t)
}

func (r *rank) call(t *thread) {
	switch {
	case t.calling:
		r.resume()
	case t.call != nil:
		if r.test(t.call) {
			t.call = nil
		}
	case t.next < len(t.ops):
		o := t.ops[t.next]
		r.start(t, o)
		for r.w.plan.alike && r.another(t, o) {
			r.start(t, t.ops[t.next])
		}
	case len(t.pending) > 0:
		i := r.w.rng.IntN(len(t.pending))
		if r.test(t.pending[i]) {
			t.pending = slices.Delete(t.pending, i, i+1)
		}
	}
}

// another reports whether the next operation is a send to the same rank as o, which was
// begun: then the engine does not flush in between.
func (r *rank) another(t *thread, o op) bool {
	if t.next == len(t.ops) || r.app.broken != nil || !o.send || o.step > 0 || r.w.rng.IntN(8) == 0 {
		return false
	}
	n, ev := t.ops[t.next], r.w.prog.events
	a, b := &ev[o.ev], &ev[n.ev]
	return n.send && n.step == 0 && n.style == deferred && n.ev != o.ev && a.dst == b.dst
}

func (r *rank) start(t *thread, o op) {
	if o.step > 0 {
		r.calls(t, func() {
			r.takeStep(&r.w.prog.steps[o.step-1])
			t.next++
		})
		return
	}
	e := &r.w.prog.events[o.ev]
	c := &call{op: o}
	if r.blocks(t, o) {
		t.next++
		r.calls(t, func() { r.block(c, e) })
		return
	}
	var err error
	if o.send {
		c.buf = make([]byte, e.size)
		content(c.buf, e.id, r.salt(e))
		r.w.oracle.sent(e)
		c.req, err = r.e.Isend(e.dst, e.ctx, e.tag, &elem, c.buf, e.mode())
		r.began(t, c, err)
		return
	}
	switch {
	case o.style == probed && !t.found:
		t.st, t.found, err = r.e.Iprobe(o.src, e.ctx, o.tag)
		if err != nil {
			r.fails(err)
		}
		return
	case o.style == mprobed && !t.found:
		t.mprobe, t.st, t.found, err = r.e.Improbe(o.src, e.ctx, o.tag)
		if err != nil {
			r.fails(err)
		}
		c.post = r.post()
		return
	case o.style == mprobed:
		c.buf, c.post = make([]byte, t.st.Bytes), r.app.posts
		c.req, err = r.e.Imrecv(t.mprobe, &elem, c.buf)
	case o.style == probed:
		c.buf, c.post = make([]byte, t.st.Bytes), r.post()
		c.req, err = r.e.Irecv(t.st.Source, e.ctx, int32(t.st.Tag), &elem, c.buf)
	default:
		c.buf, c.post = make([]byte, r.w.largest(e.ctx, r.id)), r.post()
		c.req, err = r.e.Irecv(o.src, e.ctx, o.tag, &elem, c.buf)
	}
	r.began(t, c, err)
}

// blocks reports whether a goroutine makes an operation by a call that blocks. One of
// them at most does so: it alone is the caller.
func (r *rank) blocks(t *thread, o op) bool {
	return r.w.plan.calls && o.style == blocking && t == &r.app.threads[0] && r.w.rng.IntN(4) > 0
}

// block makes an operation by such a call.
func (r *rank) block(c *call, e *event) {
	if !c.op.send {
		c.buf, c.post = make([]byte, r.w.largest(e.ctx, r.id)), r.post()
		st, err := r.e.Recv(c.op.src, e.ctx, c.op.tag, &elem, c.buf, nil)
		if err != nil {
			r.fails(err)
			return
		}
		r.received(c, st)
		return
	}
	c.buf = make([]byte, e.size)
	content(c.buf, e.id, r.salt(e))
	r.w.oracle.sent(e)
	if err := r.e.Send(e.dst, e.ctx, e.tag, &elem, c.buf, e.mode(), nil); err != nil {
		r.fails(err)
	}
	clear(c.buf)
}

// mode is how an event is sent.
func (e *event) mode() engine.SendMode {
	if e.sync {
		return engine.Synchronous
	}
	return engine.Standard
}

func (r *rank) post() uint64 {
	r.app.posts++
	return r.app.posts
}

func (r *rank) salt(e *event) uint64 {
	if e.sround < 0 {
		return 0
	}
	return r.app.acc
}

func (r *rank) began(t *thread, c *call, err error) {
	if err != nil {
		r.fails(err)
		return
	}
	t.next++
	t.found = false
	switch c.op.style {
	case blocking, probed, mprobed:
		t.call = c
	case leftOver:
		t.over = append(t.over, c)
	default:
		t.pending = append(t.pending, c)
	}
}

// test completes a call if it is over.
func (r *rank) test(c *call) bool {
	st, done, err := r.e.Test(c.req)
	if err != nil {
		r.fails(err)
		return false
	}
	switch {
	case done && c.op.send:
		clear(c.buf) // it is the program's again: nobody may read it any more
	case done:
		r.received(c, st)
	}
	return done
}

// fails takes an error of the engine: right only if a rank has died.
func (r *rank) fails(err error) {
	if !r.w.someoneDied {
		r.w.violate("rank %d: a call failed: %v", r.id, err)
	}
	r.app.broken = err
	r.w.logf("rank %d: %v", r.id, err)
}

// received checks a message and adds it to the round's digest.
func (r *rank) received(c *call, st engine.Status) {
	w, g := r.w, r.w.prog
	e := &g.events[c.op.ev]
	if st.Bytes > len(c.buf) {
		w.violate("rank %d: message of %d bytes in context %#x, room for %d", r.id, st.Bytes, e.ctx, len(c.buf))
	}
	buf := c.buf[:st.Bytes]
	if e.fam != famExact || st.Bytes >= 8 {
		if len(buf) < 8 {
			w.violate("rank %d: message of %d bytes in context %#x", r.id, st.Bytes, e.ctx)
		}
		id := int(binary.LittleEndian.Uint64(buf) >> 32)
		if id >= len(g.events) {
			w.violate("rank %d: message without a sender in context %#x: % x", r.id, e.ctx, buf[:8])
		}
		if e.fam == famExact && id != e.id {
			w.violate("rank %d: receive of event %d got event %d", r.id, e.id, id)
		}
		e = &g.events[id]
	}
	w.oracle.received(r, e, c, st, buf)
	if e.sround >= 0 {
		r.app.sum += g.digest(e)
	}
}

var elem = engine.Type{ID: 1, Size: 1, Name: "uint8"}
