package devices

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
)

// kind names a frame.
type kind int

const (
	toClose kind = iota
	toCapture
	toOpen
	toRevert
	toAsk
	toSwap
	news
	ready
	captured
	failed
	where
	broughtUp
	gone
	wished
)

var kindNames = [...]string{"close", "capture", "open", "revert", "ask", "swap", "news", "ready", "captured", "failed", "where", "brought up", "gone", "wish"}

// frame is what head, agent and rank say to each other.
type frame struct {
	kind    kind
	rank    int
	attempt uint32
	id      uint64
	wish    offload.Wish
	news    offload.News
	text    string
	piece   *piece
	swap    swapping
}

func (f frame) String() string {
	s := fmt.Sprintf("%s %d", kindNames[f.kind], f.attempt)
	switch {
	case f.wish.Start != nil:
		s += fmt.Sprintf(" of %d: start %+v", f.id, *f.wish.Start)
	case f.wish.Order != nil:
		s += fmt.Sprintf(" of %d: order %+v", f.id, *f.wish.Order)
	case f.wish.End:
		s += fmt.Sprintf(" of %d: end", f.id)
	case f.wish.Valid != nil:
		s += fmt.Sprintf(" of %d: valid %+v", f.id, *f.wish.Valid)
	case f.news.Answer != nil:
		s += fmt.Sprintf(" of %d: %+v", f.id, *f.news.Answer)
	case f.kind == news:
		s += fmt.Sprintf(" of %d: %q, round %d", f.id, f.news.Gone, f.news.Round)
	}
	return s + f.text
}

// order is an order and where its capture goes.
type order struct {
	offload.Order
	file **capture
}

func (o order) String() string {
	s := fmt.Sprintf("%s %d", o.Op, o.Attempt&^own)
	if o.Attempt&own != 0 {
		s += " of the agent"
	}
	if o.Op == offload.OrderCapture {
		s += fmt.Sprintf(" without %v, end %v", o.Skip, o.End)
	}
	return s
}

// agent is an agent with its ranks.
type agent struct {
	w        *world
	n        int
	alive    bool
	stations []*station
	up, down *pipe
}

func newAgent(w *world, n int) *agent {
	a := &agent{w: w, n: n, alive: true}
	a.up = w.pipe(fmt.Sprintf("agent %d to head", n), func(m any) { w.head.hear(a, m) })
	a.down = w.pipe(fmt.Sprintf("head to agent %d", n), a.hear)
	return a
}

// hear takes a frame of the head.
func (a *agent) hear(m any) {
	f := m.(frame)
	for _, s := range a.stations {
		if s.r.n == f.rank && !s.over {
			s.ordered(f)
		}
	}
}

// die is the end of an agent, and with it of all that it has started.
func (a *agent) die() {
	a.w.say("agent %d dies", a.n)
	a.alive = false
	for _, s := range a.stations {
		s.r.alive = false
		s.over = true
		for _, o := range s.procs {
			if o.cmd != nil {
				a.w.procs = slices.DeleteFunc(a.w.procs, func(p *process) bool { return p == o.cmd })
				a.w.drop(o.cmd.answers)
				a.w.drop(o.cmd.orders)
			}
		}
		a.w.drop(s.up)
		a.w.drop(s.down)
	}
	a.w.drop(a.down)
	a.up.send(eof{"the agent has died"})
}

// brought tells the head of restored ranks that have no processes to wait for.
func (a *agent) brought() {
	for _, s := range a.stations {
		s.stands()
	}
}

// station is what an agent has of a rank: internal/job/agent's devices.
type station struct {
	w        *world
	a        *agent
	r        *rank
	m        sessions.Rank
	up, down *pipe
	todo     []sessions.Event
	heard    uint64
	procs    []*offloader
	over     bool

	attempt uint32
	ready   *frame
	asked   bool
	take    *take
	round   uint32
	said    bool // Ready, and neither Open nor Revert since
	waits   bool // it is restored, and the head does not know that all is there
	held    []frame
}

// take is the captures of one attempt.
type take struct {
	image bool // the rank is to be imaged
	done  bool // all captures are there
	sent  bool
	due   map[uint64]bool
	mem   *memory
}

// piece is a rank's part of a snapshot.
type piece struct {
	mem      *memory
	captures []taken
}

type taken struct {
	id     uint64
	device int
	what   *capture
}

func newStation(a *agent, r *rank) *station {
	s := &station{w: a.w, a: a, r: r}
	s.up = a.w.pipe(fmt.Sprintf("rank %d to agent", r.n), s.hear)
	s.down = a.w.pipe(fmt.Sprintf("agent to rank %d", r.n), r.hear)
	return s
}

// choices are what an agent does by itself: it images ranks, and asks for what a user will not wait any longer.
func (a *agent) choices(add func(int, func())) {
	for _, s := range a.stations {
		if s.over || !a.alive {
			continue
		}
		if t := s.take; t != nil && t.image && t.mem == nil && s.r.alive {
			add(4, func() {
				a.w.say("rank %d is imaged", s.r.n)
				t.mem = s.r.mem.clone()
				s.taken()
			})
		}
		for _, o := range s.procs {
			o.choices(add)
		}
	}
}

func (s *station) step(e sessions.Event) {
	s.todo = append(s.todo, e)
	if len(s.todo) > 1 {
		return // a step is under way
	}
	for len(s.todo) > 0 {
		for _, act := range s.m.Step(s.todo[0]) {
			s.do(act)
		}
		s.todo = s.todo[1:]
	}
}

func (s *station) of(id uint64) *offloader {
	for _, o := range s.procs {
		if o.id == id {
			return o
		}
	}
	return nil
}

func (s *station) do(act sessions.Action) {
	o := s.of(act.ID)
	switch act.Type {
	case sessions.ActStart:
		o.launch(nil)
	case sessions.ActPass:
		o.pass()
	case sessions.ActEnd:
		o.end()
		if o.cmd == nil {
			s.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Due: true, Err: "it was swapped out"})
		}
	case sessions.ActPause:
		if s.w.breaks(staleSwap) && o.user != nil {
			s.askSkip(o)
			return
		}
		o.command(offload.Order{Op: offload.OrderPause}, nil, sessions.EvPaused)
	case sessions.ActReady:
		s.sayReady()
	case sessions.ActSkips:
		if s.w.breaks(stale) {
			s.step(sessions.Event{Type: sessions.EvSkips})
			return
		}
		s.take.due = map[uint64]bool{}
		s.askSkips()
	case sessions.ActCapture:
		o.file = nil
		o.command(offload.Order{Op: offload.OrderCapture, Skip: o.skip}, &o.file, sessions.EvCaptured)
	case sessions.ActImage:
		s.take.image = true
	case sessions.ActDone:
		s.take.done = true
		s.taken()
	case sessions.ActResume:
		o.command(offload.Order{Op: offload.OrderResume}, nil, sessions.EvResumed)
	case sessions.ActRevert:
		o.command(offload.Order{Op: offload.OrderRevert}, nil, sessions.EvResumed)
	case sessions.ActFail:
		if !s.w.breaks(deathIgnored) {
			s.a.up.send(frame{kind: failed, rank: s.r.n, attempt: s.attempt, text: act.Err})
		}
	case sessions.ActSkip:
		if !s.w.breaks(staleSwap) {
			s.askSkip(o)
		} else {
			s.step(sessions.Event{Type: sessions.EvSkips, ID: o.id})
		}
	case sessions.ActLeave:
		o.stored, o.leaving = nil, true
		o.command(offload.Order{Op: offload.OrderCapture, End: true, Skip: o.skip}, &o.stored, sessions.EvCaptured)
	case sessions.ActReturn:
		o.launch(o.stored)
	case sessions.ActSwapped:
		o.swapped("")
	case sessions.ActRefuse:
		o.swapped(act.Err)
	case sessions.ActTell:
		s.toldDeath(act, o)
	}
}

func (s *station) tell(id uint64, n offload.News) { s.down.send(frame{kind: news, id: id, news: n}) }

// toldDeath tells the rank of the end of a process.
func (s *station) toldDeath(act sessions.Action, o *offloader) {
	switch {
	case o.cmd != nil && o.cmd.lives():
		s.w.fault("%v is told to have ended, and lives", o.cmd)
	case o.isOut && !o.ending:
		s.w.fault("rank %d hears of device %d, which a user has swapped out", s.r.n, o.id)
	}
	if !s.w.breaks(deathUntold) {
		s.tell(act.ID, offload.News{Gone: act.Err})
	}
	if !s.m.Has(act.ID) {
		o.lost = !o.due
	}
}

// sayReady tells the head that rank and processes stand.
func (s *station) sayReady() {
	if s.ready != nil {
		s.said = s.attempt == s.ready.attempt && s.m.Held()
		f := *s.ready
		f.rank = s.r.n
		s.a.up.send(f)
	}
}

// ordered takes a frame of the head for the rank.
func (s *station) ordered(f frame) {
	switch f.kind {
	case toClose:
		s.attempt, s.ready, s.take, s.said = f.attempt, nil, nil, false
		if s.w.breaks(stale) {
			for _, o := range s.procs {
				o.skip = nil
			}
			s.take = &take{due: map[uint64]bool{}}
			s.askSkips()
		}
		s.step(sessions.Event{Type: sessions.EvGate, Attempt: f.attempt})
	case toCapture:
		s.take = &take{}
		s.step(sessions.Event{Type: sessions.EvCapture})
		return
	case toOpen:
		s.let(sessions.EvOpen)
	case toRevert:
		s.let(sessions.EvRevert)
	case toAsk:
		s.asks()
		return
	case toSwap:
		s.swap(f.swap)
		return
	}
	s.down.send(f)
}

// let ends an attempt, or lets a restored rank go.
func (s *station) let(how sessions.EventType) {
	s.said, s.take = false, nil
	if s.r.stands {
		for _, o := range s.procs {
			s.tell(o.id, offload.News{Answer: &offload.Answer{Op: offload.Hello}})
		}
	}
	s.step(sessions.Event{Type: how})
	held := s.held
	s.held = nil
	for _, f := range held {
		s.wish(f)
	}
}

// asks answers the head's question what the rank waits for.
func (s *station) asks() {
	text := s.m.Waits(func(id uint64) string { return fmt.Sprintf("device %d", id) })
	for _, id := range s.m.Busy() {
		s.asked = true
		o := s.of(id)
		o.send(order{Order: offload.Order{Op: offload.OrderLate, Attempt: o.attempt}})
		return
	}
	s.a.up.send(frame{kind: where, rank: s.r.n, text: text})
}

// hear takes a frame of the rank, or its end.
func (s *station) hear(m any) {
	if s.over {
		return
	}
	if _, ok := m.(eof); ok {
		s.ended()
		return
	}
	switch f := m.(frame); f.kind {
	case ready:
		if !s.m.Held() || f.attempt == s.attempt || s.w.breaks(readyOfAnother) {
			s.ready = &f
		}
		e := sessions.Event{Type: sessions.EvDrained, Attempt: f.attempt}
		if s.w.breaks(readyOfAnother) {
			e.Attempt = s.attempt
		}
		if s.w.breaks(readyEarly) {
			s.sayReady()
		}
		s.step(e)
	case wished:
		s.wish(f)
	}
}

// wish takes what the rank asks for.
func (s *station) wish(f frame) {
	w := f.wish
	own := w.Order != nil && w.Order.Op != offload.OrderPause
	switch {
	case w.Valid != nil:
	case s.w.breaks(wishLost) && s.m.Held():
		s.heard = max(s.heard, w.Number)
		return
	case s.w.breaks(followHeld) && own && s.m.Held():
		s.held = append(s.held, f)
		return
	}
	if w.Number <= s.heard && len(s.held) == 0 && !s.w.breaks(followHeld) {
		return // a repetition
	}
	s.heard = max(s.heard, w.Number)
	o := s.of(f.id)
	e := sessions.Event{Type: sessions.EvAsk, ID: f.id}
	switch {
	case w.Valid != nil:
		s.skips(o, w.Valid)
		return
	case w.Start != nil:
		if o == nil {
			o = &offloader{s: s, id: f.id}
			s.procs = append(s.procs, o)
		}
		o.device, _ = strconv.Atoi(w.Start.Device)
		o.restore, e.Op = w.Start.Restore != "", sessions.OpStart
	case o == nil || o.lost:
		s.tell(f.id, offload.News{Gone: "there is no such process"})
		if w.End {
			s.step(sessions.Event{Type: sessions.EvAsk, ID: f.id, Op: sessions.OpEnd})
		}
		return
	case w.End:
		o.ending = true
		e.Op = sessions.OpEnd
	default:
		o.wishes = append(o.wishes, *w.Order)
		if e.Op = sessions.OpFollow; w.Order.Op == offload.OrderPause {
			e.Op = sessions.OpPause
		}
	}
	s.step(e)
}

// askSkips asks the rank, for each process, what is valid at the host.
func (s *station) askSkips() {
	s.round++
	for _, id := range s.m.In() {
		s.take.due[id] = true
		s.tell(id, offload.News{Round: s.round})
	}
}

func (s *station) askSkip(o *offloader) {
	s.round++
	o.round = s.round
	s.tell(o.id, offload.News{Round: s.round})
}

// skips takes the answer.
func (s *station) skips(o *offloader, v *offload.Valid) {
	if o != nil && o.round != 0 && v.Round == o.round {
		o.round, o.skip = 0, v.Memories
		if s.w.breaks(staleSwap) {
			o.command(offload.Order{Op: offload.OrderPause}, nil, sessions.EvPaused)
		} else {
			s.step(sessions.Event{Type: sessions.EvSkips, ID: o.id})
		}
		return
	}
	if s.take == nil || o == nil || v.Round != s.round || !s.take.due[o.id] {
		return
	}
	o.skip = v.Memories
	if delete(s.take.due, o.id); len(s.take.due) == 0 && !s.w.breaks(stale) {
		s.step(sessions.Event{Type: sessions.EvSkips})
	}
}

// taken sends the rank's piece when all of it is there.
func (s *station) taken() {
	t := s.take
	if t == nil || t.mem == nil || !t.done || t.sent {
		return
	}
	t.sent = true
	p := &piece{mem: t.mem}
	for _, o := range s.procs {
		switch {
		case !s.m.Has(o.id), s.w.breaks(outForgotten) && o.cmd == nil:
		case o.cmd == nil && o.stored != nil:
			p.captures = append(p.captures, taken{o.id, o.device, o.stored})
		default:
			p.captures = append(p.captures, taken{o.id, o.device, o.file})
		}
	}
	s.a.up.send(frame{kind: captured, rank: s.r.n, attempt: s.attempt, piece: p})
}

// bring gives a restored rank, which stands, its processes.
func (s *station) bring(p *piece) {
	s.r.mem = p.mem.clone()
	s.waits = true
	for _, c := range p.captures {
		o := &offloader{s: s, id: c.id, device: (c.device + s.w.life) % 3}
		s.procs = append(s.procs, o)
		if s.w.shares && !s.w.mixed {
			o.stored, o.isOut = c.what, true
			s.step(sessions.Event{Type: sessions.EvStored, ID: o.id})
			continue
		}
		o.bringing = true
		s.step(sessions.Event{Type: sessions.EvRestored, ID: o.id})
		o.launch(c.what)
	}
}

// stands tells the head of a restored rank when all its processes have greeted.
func (s *station) stands() {
	if !s.waits || slices.ContainsFunc(s.procs, func(o *offloader) bool { return o.bringing }) {
		return
	}
	s.waits = false
	s.a.up.send(frame{kind: broughtUp, rank: s.r.n})
}

// ended ends all processes of a rank that has ended.
func (s *station) ended() {
	s.over = true
	for _, o := range s.procs {
		o.due = true
		if o.cmd != nil && o.cmd.lives() {
			o.cmd.die("its rank has ended")
		}
	}
	s.a.up.send(frame{kind: gone, rank: s.r.n})
}
