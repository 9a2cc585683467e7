package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// devices are the offload processes of one rank. Package sessions decides what happens when;
// offload.go has the processes, takes.go the captures.
type devices struct {
	a   *agent
	r   *rankProc
	job string

	mu    sync.Mutex // taken after the agent's, if both are
	m     sessions.Rank
	todo  []sessions.Event // of actions, for after the actions of this step
	heard uint64           // number of the newest wish
	procs map[uint64]*offloader
	told  string // what the head was told last
	over  bool   // the rank has ended

	gate  oob.Msg   // the Close of the attempt under way
	ready *oob.Msg  // the rank's Ready, kept back
	asked []oob.Msg // the head's questions that a process is to answer
	take  *take     // of the newest attempt
	round uint32
}

// any reports whether the rank has offload processes.
func (d *devices) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.procs) > 0
}

func newDevices(a *agent, r *rankProc) *devices {
	return &devices{a: a, r: r, job: a.order.Start[r.rank].Job, procs: map[uint64]*offloader{}}
}

// step feeds the machine, and carries out what it says. Caller holds mu.
func (d *devices) step(e sessions.Event) {
	d.todo = append(d.todo, e)
	if len(d.todo) > 1 {
		return // a step is under way
	}
	for len(d.todo) > 0 {
		for _, act := range d.m.Step(d.todo[0]) {
			d.do(act)
		}
		d.todo = d.todo[1:]
	}
	for _, o := range d.procs {
		o.guest.nudge()
	}
	d.tellHead()
}

func (d *devices) do(act sessions.Action) {
	o := d.procs[act.ID]
	switch act.Type {
	case sessions.ActStart:
		d.start(o, "", nil)
	case sessions.ActPass:
		d.pass(o)
	case sessions.ActEnd:
		o.end()
		if o.cmd == nil { // swapped out
			d.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Due: true, Err: "it was swapped out"})
		}
	case sessions.ActPause:
		o.command(offload.Order{Op: offload.OrderPause}, sessions.EvPaused)
	case sessions.ActCapture:
		d.capture(o)
	case sessions.ActResume:
		o.command(offload.Order{Op: offload.OrderResume}, sessions.EvResumed)
	case sessions.ActRevert:
		o.command(offload.Order{Op: offload.OrderRevert}, sessions.EvResumed)
	case sessions.ActReady:
		d.a.head.Send(*d.ready)
	case sessions.ActSkips:
		d.askSkips()
	case sessions.ActImage:
		close(d.take.image)
	case sessions.ActDone:
		close(d.take.done)
	case sessions.ActFail:
		d.failed(act.Err)
	case sessions.ActSkip:
		d.round++
		o.round = d.round
		d.tell(o.id, offload.News{Round: d.round})
	case sessions.ActLeave:
		o.leave()
	case sessions.ActReturn:
		d.start(o, "", o.stored)
	case sessions.ActSwapped:
		if o.cmd != nil {
			o.forget() // at once: the next swap may begin before the caller that waited for this one runs
		}
		o.answerUser(nil)
	case sessions.ActRefuse:
		o.answerUser(errors.New(act.Err))
	case sessions.ActTell:
		d.tell(act.ID, offload.News{Gone: act.Err})
		if !d.m.Has(act.ID) {
			o.lost = !o.due
			o.forget()
			if o.guest != nil {
				o.guest.stop()
			}
		}
	}
}

// tell tells the rank.
func (d *devices) tell(id uint64, n offload.News) {
	d.r.down.Send(oob.Msg{Kind: oob.Offload, From: oob.AgentAddr(int(d.a.index)), To: int32(d.r.rank), A: id, Data: wire.JSON(n)})
}

// say speaks to the head for the rank, in the attempt under way.
func (d *devices) say(m oob.Msg) {
	m.From, m.To = int32(d.r.rank), oob.Head
	m.Incarnation, m.Attempt = d.gate.Incarnation, d.gate.Attempt
	d.a.head.Send(m)
}

func (d *devices) failed(why string) {
	if d.take != nil {
		d.take.fail(why)
	}
	d.say(oob.Msg{Kind: oob.Failed, Data: []byte(why)})
}

// wish takes what the rank asks for.
func (d *devices) wish(m *oob.Msg) {
	var w offload.Wish
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return // of a program that was built with a later gorun
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Number <= d.heard || d.over {
		return // a repetition
	}
	d.heard = w.Number
	o := d.procs[m.A]
	e := sessions.Event{Type: sessions.EvAsk, ID: m.A}
	switch {
	case w.Valid != nil:
		d.skips(o, w.Valid)
		return
	case w.Start != nil:
		if o == nil {
			o = newOffloader(d, m.A)
			d.procs[m.A] = o
		}
		o.start, e.Op = *w.Start, sessions.OpStart
	case o == nil || o.lost:
		d.tell(m.A, offload.News{Gone: "there is no such process"})
		if w.End {
			if o != nil {
				o.lost = false // the head is told of it no longer
			}
			d.step(sessions.Event{Type: sessions.EvAsk, ID: m.A, Op: sessions.OpEnd})
		}
		return
	case w.End:
		e.Op = sessions.OpEnd
	case w.Order != nil:
		o.wishes = append(o.wishes, *w.Order)
		if e.Op = sessions.OpFollow; w.Order.Op == offload.OrderPause {
			e.Op = sessions.OpPause
		}
	default:
		return
	}
	d.step(e)
}

// onDevices takes a frame for the rank that concerns its offload processes, too. It reports true if the rank does not get it.
func (r *rankProc) onDevices(m *oob.Msg) bool {
	d := r.devices
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m.Kind {
	case oob.Close:
		if m.A == oob.ModeNative {
			d.gate, d.ready, d.take, d.asked = *m, nil, nil, nil
			d.step(sessions.Event{Type: sessions.EvGate, Attempt: m.Attempt})
		}
	case oob.Open, oob.Running:
		d.step(sessions.Event{Type: sessions.EvOpen})
	case oob.Revert:
		d.step(sessions.Event{Type: sessions.EvRevert})
	case oob.Ask:
		return d.ask(m)
	case oob.Offload:
		go d.swap(*m)
		return true
	}
	return false
}

// drained takes the Ready of the rank. The head gets it when the processes are paused.
func (d *devices) drained(m oob.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m.To = oob.Head
	if !d.m.Held() || m.Attempt == d.gate.Attempt {
		d.ready = &m
	}
	d.step(sessions.Event{Type: sessions.EvDrained, Attempt: m.Attempt})
}

// ask answers for a rank that is drained and waits for its processes. The one that is busy is asked for its kernel.
func (d *devices) ask(m *oob.Msg) bool {
	text := d.m.Waits(d.name)
	if d.ready == nil || text == "" {
		return false
	}
	for _, id := range d.m.Busy() {
		d.asked = append(d.asked, *m)
		o := d.procs[id]
		o.send(offload.Order{Op: offload.OrderLate, Attempt: o.attempt})
		return true
	}
	d.where(m, text)
	return true
}

func (d *devices) where(m *oob.Msg, text string) {
	d.a.head.Send(oob.Msg{Kind: oob.Where, From: int32(d.r.rank), To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt,
		A: uint64(ckpt.Draining), Data: []byte("is drained, but " + text)})
}

// late answers what the head has asked, with the words of a process.
func (d *devices) late(o *offloader, text string) {
	for _, m := range d.asked {
		d.where(&m, fmt.Sprintf("%s %s", o.name(), text))
	}
	d.asked = nil
}

func (d *devices) name(id uint64) string { return d.procs[id].name() }

// tellHead tells the head of the processes, if that is new. A state that lasts only during a
// checkpoint is not told.
func (d *devices) tellHead() {
	if d.m.Held() {
		return
	}
	var all []offload.Session
	for _, o := range d.list() {
		if o.id != 0 && (o.lost || d.m.Has(o.id)) {
			all = append(all, offload.Session{Device: o.device(), PID: o.pid(), State: d.m.Says(o.id), Error: o.cause(), Out: o.isOut() && !o.byTurns()})
		}
	}
	text := string(wire.JSON(all))
	if text == d.told || d.told == "" && all == nil {
		return
	}
	d.told = text
	d.a.head.Send(oob.Msg{Kind: oob.Offload, From: int32(d.r.rank), To: oob.Head, Data: []byte(text)})
}

// list is all processes, in the order of their numbers.
func (d *devices) list() (all []*offloader) {
	for _, o := range d.procs {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *offloader) int { return int(int64(a.id) - int64(b.id)) })
	return all
}

// end ends all processes of a rank that has ended, and returns when they are reaped.
func (d *devices) end() {
	d.mu.Lock()
	d.over = true
	all := d.list()
	for _, o := range all {
		o.end()
		o.answerUser(errors.New("the rank has ended"))
	}
	d.mu.Unlock()
	for _, o := range all {
		o.running.Wait()
		if o.guest != nil {
			o.guest.stop()
			<-o.guest.ended
		}
		o.forget()
	}
}
