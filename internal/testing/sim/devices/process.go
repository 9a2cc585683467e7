package devices

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/phase"
)

// noDevice is the number of a device that nobody has.
const noDevice = 9

// process is an offload process: the machine of package phase, driven as cmd/gorun-device does.
type process struct {
	w       *world
	o       *offloader
	ring    *ring // in the memory of the rank
	m       phase.Machine
	number  int
	device  int
	from    *capture
	opened  bool
	greeted bool
	orders  *pipe
	answers *pipe

	jobs   []func() // for the worker, between two batches
	events []phase.Event
	taking bool
	batch  bool // taken and not done
	hangs  bool // in a kernel that never ends
	memory map[int]uint64
	skip   []uint64
	taken  *writing
}

func (p *process) String() string { return fmt.Sprintf("process %d of rank %d", p.number, p.o.s.r.n) }

// capture is the content of a device.
type capture struct {
	head   int
	memory map[int]uint64
}

// writing is a capture that is being written.
type writing struct {
	to      *capture
	file    **capture // where it is when it is whole
	attempt uint32
	left    []int // memories
	told    bool
}

// choices are what the process can do next.
func (p *process) choices(add func(int, func())) {
	if !p.opened {
		add(4, p.open)
		return
	}
	if len(p.events) > 0 {
		add(8, func() {
			e := p.events[0]
			p.events = p.events[1:]
			p.step(e)
		})
	}
	switch {
	case p.hangs:
	case p.batch:
		add(4, p.finish)
	case len(p.jobs) > 0:
		add(8, func() {
			job := p.jobs[0]
			p.jobs = p.jobs[1:]
			job()
		})
	case p.taking && len(p.ring.commands) > p.ring.taken:
		add(4, p.take)
	}
	if p.taken != nil && !p.batch {
		add(4, p.write)
	}
}

// open opens the device, or says why not.
func (p *process) open() {
	p.opened = true
	why := ""
	if r := p.ring; r.done != r.taken {
		why = "commands were begun by a process that has died"
	} else if p.device == noDevice {
		why = "no such device"
	}
	if why != "" {
		p.answers.send(offload.Answer{Op: offload.Hello, Error: why})
		p.exit("exit status 1")
		return
	}
	if p.from == nil {
		p.step(phase.Event{Type: phase.EvStart, Head: uint64(p.ring.done)})
		return
	}
	p.step(phase.Event{Type: phase.EvRestore, Head: uint64(p.ring.done)})
}

var orderTypes = map[string]phase.EventType{offload.OrderPause: phase.EvPause, offload.OrderCapture: phase.EvCapture, offload.OrderResume: phase.EvResume,
	offload.OrderRevert: phase.EvRevert, offload.OrderEnd: phase.EvEnd}

// obey takes an order.
func (p *process) obey(m any) {
	o := m.(order)
	if o.Op == offload.OrderLate {
		if !p.w.breaks(lateUnnamed) {
			p.step(phase.Event{Type: phase.EvLate, Attempt: o.Attempt, Err: "kernel mix"})
		}
		return
	}
	if o.Op == offload.OrderCapture {
		p.skip = o.Skip
	}
	e := phase.Event{Type: orderTypes[o.Op], Attempt: o.Attempt, End: o.End}
	actions := p.m.Step(e)
	if p.w.breaks(refusedUnanswered) && len(actions) == 1 && actions[0].Type == phase.ActTell && actions[0].Err != "" {
		return
	}
	for _, a := range actions {
		p.do(a, o)
	}
}

func (p *process) step(e phase.Event) {
	for _, a := range p.m.Step(e) {
		p.do(a, order{})
	}
}

func (p *process) do(a phase.Action, o order) {
	switch a.Type {
	case phase.ActTake:
		p.jobs = append(p.jobs, func() { p.taking = true })
	case phase.ActDrain:
		idle := func() {
			p.taking = p.w.breaks(takesMeanwhile)
			p.events = append(p.events, phase.Event{Type: phase.EvIdle, Attempt: a.Attempt, Head: uint64(p.ring.done)})
		}
		if p.w.breaks(idleEarly) {
			idle()
		} else {
			p.jobs = append(p.jobs, idle)
		}
	case phase.ActCapture:
		p.begin(o, a.Attempt)
	case phase.ActDiscard:
		p.discard()
	case phase.ActRestore:
		p.jobs = append(p.jobs, func() {
			p.memory = map[int]uint64{}
			for n, v := range p.from.memory {
				p.memory[n] = v
			}
			head := uint64(p.from.head)
			if p.w.breaks(headIgnored) {
				head = uint64(p.ring.done)
			}
			p.events = append(p.events, phase.Event{Type: phase.EvRestored, Attempt: a.Attempt, Head: head})
		})
	case phase.ActTell:
		p.tell(a)
	case phase.ActExit:
		p.exit("")
	}
}

// tell answers. The first answer is the greeting.
func (p *process) tell(a phase.Action) {
	answer := offload.Answer{Op: a.State.String(), Attempt: a.Attempt, Error: a.Err, Taken: a.Head}
	if !p.greeted {
		p.greeted = true
		answer.Op = offload.Hello
	}
	p.answers.send(answer)
	if p.w.breaks(lateRun) && a.State == phase.Paused {
		p.taking = true
	}
}

// take takes commands, one or all that there are.
func (p *process) take() {
	p.runs("takes a command")
	p.batch = true
	n := len(p.ring.commands) - p.ring.taken
	p.ring.taken += 1 + p.w.rng.IntN(n)
	if p.w.hangs > 0 && p.w.rng.IntN(8) == 0 {
		p.w.hangs--
		p.hangs = true
		p.w.say("%v: a kernel never ends", p)
	}
}

// runs reports whether commands may run now.
func (p *process) runs(what string) {
	s := p.o.s
	switch {
	case s.said:
		p.w.fault("%v %s between Ready and the end of the attempt", p, what)
	case !p.w.up:
		p.w.fault("%v %s before all ranks are restored", p, what)
	case p.w.head.phase == capturing:
		p.w.fault("%v %s before all ranks are captured", p, what)
	}
}

// finish carries out what was taken.
func (p *process) finish() {
	p.runs("runs")
	p.batch = false
	for ; p.ring.done < p.ring.taken; p.ring.done++ {
		p.ring.commands[p.ring.done].carryOut(p.memory)
	}
}

// begin begins a capture, which goes to the file of the order when it is whole.
func (p *process) begin(o order, attempt uint32) {
	c := &writing{to: &capture{head: int(p.m.Head()), memory: map[int]uint64{}}, file: o.file, attempt: attempt}
	for n := range arrays {
		if _, ok := p.memory[n]; !ok {
			continue
		}
		c.to.memory[n] = 0
		if !slices.Contains(p.skip, uint64(n)) {
			c.left = append(c.left, n)
		}
	}
	p.taken = c
	if p.w.breaks(toldEarly) {
		*c.file = c.to.clone()
		c.told = true
		p.events = append(p.events, phase.Event{Type: phase.EvCaptured, Attempt: attempt})
	}
}

// write writes a part of a capture.
func (p *process) write() {
	c := p.taken
	if len(c.left) > 0 {
		n := c.left[0]
		c.left = c.left[1:]
		c.to.memory[n] = p.memory[n]
		return
	}
	p.taken = nil
	*c.file = c.to
	if !c.told {
		p.events = append(p.events, phase.Event{Type: phase.EvCaptured, Attempt: c.attempt})
	}
}

// discard gives a capture up, or removes it.
func (p *process) discard() { p.taken = nil }

func (c *capture) clone() *capture {
	n := &capture{head: c.head, memory: map[int]uint64{}}
	for i := range arrays {
		if v, ok := c.memory[i]; ok {
			n.memory[i] = v
		}
	}
	return n
}

// exit ends the process by itself, die by a signal. What it has said is still read.
func (p *process) exit(how string) { p.ends(how) }

func (p *process) die(how string) {
	p.w.say("%v dies: %s", p, how)
	p.ends("signal: " + how)
}

func (p *process) ends(how string) {
	p.w.procs = slices.DeleteFunc(p.w.procs, func(q *process) bool { return q == p })
	p.w.drop(p.orders)
	p.answers.send(eof{how})
}
