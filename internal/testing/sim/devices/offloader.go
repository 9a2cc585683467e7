package devices

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
)

// own is the bit of an attempt that says that the order is the agent's and not the program's.
const own = 1 << 31

// offloader is an offload process as its agent has it, or the place of one that was swapped out.
type offloader struct {
	s       *station
	id      uint64
	device  int
	restore bool // the program restores it
	wishes  []offload.Order
	cmd     *process
	greeted bool
	due     bool // it was told to end
	ending  bool // the program closes it
	lost    bool
	how     string
	attempt uint32
	awaits  sessions.EventType
	last    uint32 // the attempt of the program's order with which it ends
	since   int    // when the newest order was sent

	bringing bool // its rank is restored, and it has not greeted
	file     *capture
	stored   *capture // what it had, while a user has swapped it out
	leaving  bool
	round    uint32
	skip     []uint64
	user     *swapping
	isOut    bool // a user has swapped it out
	late     func(string)
}

// swapping is what a user wants.
type swapping struct {
	id     uint64
	op     string
	device int
	in     bool // a migration is on its way back in
	back   bool // to where it was
}

// launch makes the process.
func (o *offloader) launch(from *capture) {
	w := o.s.w
	o.isOut = false
	o.due, o.lost, o.greeted, o.how, o.attempt, o.awaits = false, false, false, "", own, 0
	o.last = 0
	r := o.s.r.mem.ring(o.id)
	if from == nil && o.restore {
		from = r.file
	}
	w.next++
	p := &process{w: w, o: o, ring: r, number: w.next, device: o.device, from: from, memory: map[int]uint64{}}
	p.answers = w.pipe(fmt.Sprintf("%v to agent", p), func(m any) {
		if _, ok := m.(eof); ok {
			w.drop(p.answers)
		}
		if o.cmd != p || o.s.over {
			return
		}
		o.hear(m)
	})
	p.orders = w.pipe(fmt.Sprintf("agent to %v", p), p.obey)
	o.cmd = p
	w.procs = append(w.procs, p)
}

func (p *process) lives() bool { return slices.Contains(p.w.procs, p) }

// hear takes what the process says, or its end.
func (o *offloader) hear(m any) {
	s := o.s
	if e, ok := m.(eof); ok {
		o.how = cmp.Or(o.how, e.why, "ended")
		o.cmd = nil
		if o.bringing {
			s.a.up.send(frame{kind: failed, rank: s.r.n, text: o.how})
			return
		}
		s.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Due: o.due || !o.greeted, Err: o.how})
		if s.w.breaks(lossForgotten) {
			s.step(sessions.Event{Type: sessions.EvAsk, ID: o.id, Op: sessions.OpEnd})
		}
		return
	}
	a := m.(offload.Answer)
	switch {
	case a.Op == offload.Hello:
		o.hello(a)
	case a.Attempt&own == 0:
		o.theirs(a)
	case a.Attempt == o.attempt && a.Op == "pausing" && o.late != nil:
		o.late(a.Error)
	case a.Attempt == o.attempt && a.Op == "pausing":
		if s.asked {
			s.asked = false
			s.a.up.send(frame{kind: where, rank: s.r.n, text: a.Error})
		}
	case (a.Attempt == o.attempt || s.w.breaks(answersOfAnother)) && o.awaits != 0:
		e := sessions.Event{Type: o.awaits, ID: o.id, Err: a.Error}
		o.awaits = 0
		if a.Error != "" {
			o.leaving = false
		} else if o.leaving && e.Type == sessions.EvCaptured {
			o.due = true
		}
		s.step(e)
	}
}

func (o *offloader) hello(a offload.Answer) {
	s := o.s
	o.greeted = a.Error == ""
	if o.bringing {
		if a.Error != "" {
			if s.w.mixed {
				s.w.seen.Refused++
			} else {
				s.w.fault("%v cannot be restored: %s", o.cmd, a.Error)
			}
			s.a.up.send(frame{kind: failed, rank: s.r.n, text: a.Error})
			return
		}
		o.bringing = false
		if s.w.breaks(letGoAlone) {
			o.command(offload.Order{Op: offload.OrderResume}, nil, 0)
		}
		s.stands()
		return
	}
	if a.Error != "" {
		o.how = a.Error
	}
	if o.stored == nil || a.Error == "" {
		s.tell(o.id, offload.News{Answer: &a})
	}
	if a.Error == "" {
		s.step(sessions.Event{Type: sessions.EvStarted, ID: o.id})
	}
}

// theirs takes the answer to an order of the program.
func (o *offloader) theirs(a offload.Answer) {
	if a.Op == "captured" && a.Error == "" && a.Attempt == o.last {
		o.due = true
	}
	o.s.tell(o.id, offload.News{Answer: &a})
	if a.Op == "running" && a.Error == "" {
		o.s.step(sessions.Event{Type: sessions.EvTheirs, ID: o.id})
	}
}

func (o *offloader) send(m order) {
	if o.cmd != nil && o.cmd.lives() {
		o.cmd.orders.send(m)
	}
}

// command sends an order of this agent.
func (o *offloader) command(m offload.Order, file **capture, answer sessions.EventType) {
	o.attempt++
	m.Attempt, o.awaits, o.since = o.attempt, answer, o.s.w.now
	o.send(order{m, file})
}

// pass sends the oldest order of the program.
func (o *offloader) pass() {
	m := o.wishes[0]
	o.wishes = o.wishes[1:]
	if o.cmd == nil {
		o.s.tell(o.id, offload.News{Answer: &offload.Answer{Op: "ended", Attempt: m.Attempt, Error: "there is no process"}})
		return
	}
	if m.End {
		o.last = m.Attempt
	}
	o.send(order{m, &o.s.r.mem.ring(o.id).file})
}

func (o *offloader) end() {
	o.due = true
	if o.cmd != nil && o.cmd.lives() {
		o.cmd.die("ended by its agent")
	}
}

// choices: a mutant takes silence for death; a user gives up.
func (o *offloader) choices(add func(int, func())) {
	w := o.s.w
	if w.breaks(silence) && o.awaits != 0 && w.now-o.since > 60 && o.cmd != nil {
		add(2, func() {
			o.awaits = 0
			o.s.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Err: "it is silent"})
		})
	}
	if w.breaks(resumedEarly) && o.s.m.Held() && o.awaits == 0 && o.cmd != nil && o.cmd.m.State().String() == "captured" {
		add(2, func() { o.command(offload.Order{Op: offload.OrderResume}, nil, 0) })
	}
}
