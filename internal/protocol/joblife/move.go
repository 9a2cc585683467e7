package joblife

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// A move takes some ranks to other nodes while the others stay in their processes. It is a new incarnation within
// the same life:
//
//	Move -> Join -> Joined           agents stand ready where the ranks are to go; all compute
//	     -> (package ckpt) -> Restore    images go ahead; all stand; the images of those that move are written
//	     -> restored, all            they wait before their first step
//	     -> Switch                   the next incarnation: the restored are let go, the others begin it where they stand
//	     -> up, all -> Moved         gates open, the old processes are ended
//
// Until all are up everything can be reverted, as the old processes stand as they were captured.
// Before the switch a failure gives up the attempt. After it, the new agents are ended first. When
// they are certainly gone, another incarnation begins, in which all ranks are where they were.
//
// The death of a rank that stays is an ordinary death at any time. So is the death of one that
// moves, before the switch. After it, the death of the new process reverts the move, and the death
// of the old process makes that impossible.
//
// No section (cr.Hold) begins between the switch and the end of the move, because its process may be given up. The
// images are a snapshot that is never committed, so a crash leaves nothing that a sweep does not find. What a rank has
// written to standard output goes to the head before its image counts as written. What its new process prints before
// all are up waits at its agent: after a revert the old process prints it.
type move struct {
	id         uint64
	ranks      []int
	step       moveStep
	next, back uint64 // the incarnations of the switch and of a revert
	limit      int64  // milliseconds without progress after which it is given up
	timeout    int64  // of all of it, as its user wants; 0: none
	clock      uint64 // the timer of that
	late       float64
	targets    []*link
	from       map[int]*link
	made       map[int]bool // restored
	ended      map[int]bool // old processes, after the switch
	seq        int          // of the images; 0: there are none
	ahead      int          // the same, for images that have gone ahead
	why        string       // it is being reverted
	signals    []syscall.Signal
}

type moveStep uint8

const (
	joining   moveStep = iota // agents are being started
	imaging                   // by the checkpoint machine
	restoring                 // by the new agents
	coming                    // the next incarnation: not all are up
	quitting                  // the new agents are being ended
	returning                 // another incarnation, all where they were: not all are up
)

// moveMillis is the limit of a move by default, to which the time for reading its images is added.
const moveMillis = 60_000

// migrate begins a move, unless there is a reason against it.
func (j *Job) migrate(ev *Event) {
	l := j.life
	if why := j.cannotMove(ev.Ranks); why != "" {
		j.act(Action{Type: ActMoved, Life: len(j.lives), ID: ev.ID, Text: why})
		return
	}
	l.move = &move{id: ev.ID, ranks: slices.Clone(ev.Ranks), limit: moveMillis, timeout: ev.Request.Timeout, from: map[int]*link{}, made: map[int]bool{}, ended: map[int]bool{}}
	for _, rank := range ev.Ranks {
		l.move.from[rank] = l.ranks[rank].link
	}
	if m := l.move; m.timeout > 0 {
		m.clock = l.after(m.timeout, func() { l.moveExpires(m) })
	}
	l.starting = true
	l.act(Action{Type: ActJoin, ID: ev.ID, Agent: len(l.links), Ranks: l.move.ranks})
}

func (j *Job) cannotMove(ranks []int) string {
	l := j.life
	switch {
	case l == nil || j.verdict != nil || j.end != nil || l.ending != nil || l.closing || l.leaving:
		return "the job is ending, or about to begin again"
	case j.pauses.state != runs:
		return "the job is suspended: gorun resume lets it go on"
	case l.move != nil || l.starting:
		return "ranks are being moved already: try again when they are up"
	case l.count[Up] < len(l.ranks):
		return "not all ranks are up: " + l.late()
	case len(ranks) == 0:
		return "no rank is to move"
	}
	for i, rank := range ranks {
		if rank < 0 || rank >= len(l.ranks) || slices.Contains(ranks[:i], rank) {
			return fmt.Sprintf("rank %d is not one of 0 to %d, or named twice", rank, len(l.ranks)-1)
		}
	}
	for rank := range l.ranks {
		if !l.ranks[rank].moves {
			return fmt.Sprintf("rank %d's program was built with an older gorun, which does not let ranks move: build it again, or use gorun checkpoint -stop and gorun restart", rank)
		}
	}
	return ""
}

// joined takes the agents that were started for a move. They belong to the life from now on, even
// if the move has failed meanwhile.
func (l *life) joined(ev *Event) {
	if !l.starting {
		return
	}
	l.starting = false
	var targets []*link
	for _, a := range ev.Begun.Agents {
		k := &link{index: len(l.links), Agent: a, joins: true, share: a.Ranks}
		k.Ranks = nil // before the switch
		l.links = append(l.links, k)
		targets = append(targets, k)
	}
	m := l.move
	if m == nil || l.ending != nil {
		l.release(targets)
		l.j.finished()
		return
	}
	m.targets, m.next, m.back = targets, ev.Begun.Incarnation, ev.Begun.Back
	if ev.Begun.Restore > 0 {
		m.limit = ev.Begun.Restore
	}
	if ev.Verdict != nil {
		l.moveIsOver(ev.Verdict.Text)
		return
	}
	m.step = imaging
	l.moved = append(l.moved, m.id)
	l.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: ckpt.Request{ID: m.id, Mode: oob.ModeNative, Move: m.ranks, Timeout: m.timeout}})
}

// goesAhead records what the new agents will read beside the images that are made when all stand.
func (l *life) goesAhead(a *ckpt.HeadAction) {
	if m := l.move; m != nil {
		for _, rank := range m.ranks {
			m.limit += int64(a.Images[rank].Raw / ckpt.Slowest)
		}
	}
}

// imaged takes the report that all stand, and that the images are written.
func (l *life) imaged(a *ckpt.HeadAction) {
	m := l.move
	if m == nil || m.step != imaging {
		return
	}
	m.step, m.seq, m.ahead = restoring, a.Seq, a.Done.Base
	for _, note := range a.Done.Notes {
		l.act(Action{Type: ActSay, Text: note, Detail: true})
	}
	for _, rank := range m.ranks {
		m.limit += int64(a.Images[rank].Raw / ckpt.Slowest)
	}
	l.j.state = "moving"
	for _, k := range m.targets {
		k.busy = true
	}
	l.act(Action{Type: ActRestore, ID: m.id, Ckpt: *a})
	l.back.moved = false
	l.watchMove()
}

// watchMove gives up a move that makes no progress.
func (l *life) watchMove() {
	m := l.move
	l.after(m.limit, func() {
		if l.move != m || l.ending != nil {
			return
		}
		m.late += 1 / l.slow
		if l.back.moved || m.step == quitting {
			m.late = 0
		}
		if l.back.moved = false; m.late < 0.99 {
			l.watchMove()
			return
		}
		m.late = 0
		l.watchMove()
		l.moveFails(fmt.Sprintf("for %v nothing has moved: %s", millis(m.limit), l.unmoved()))
	})
}

// moveExpires gives up a move whose user's limit is over. A move that is already being reverted is
// left alone.
func (l *life) moveExpires(m *move) {
	if l.move != m || l.ending != nil || m.step > coming {
		return
	}
	why := fmt.Sprintf("not done within %v (-timeout): ", millis(m.timeout))
	switch m.step {
	case joining:
		l.moveIsOver(why + "the agents there are not up")
	case imaging:
		l.moveFails(why + "not all images are written")
	default:
		l.moveFails(why + l.unmoved())
	}
}

// unmoved says which ranks hold up the move.
func (l *life) unmoved() string {
	m := l.move
	if m.step != restoring {
		return l.late()
	}
	var late []int
	for _, rank := range m.ranks {
		if !m.made[rank] {
			late = append(late, rank)
		}
	}
	return wireup.Ranks(late) + " not restored yet"
}

// moveFails reverts the move, or ends the life if it is too late for that.
func (l *life) moveFails(why string) {
	m := l.move
	switch {
	case l.ending != nil:
	case m.step < coming:
		l.step(ckpt.HeadEvent{Type: ckpt.HvMoveFailed, Err: why})
	case m.step == coming:
		m.step, m.why = quitting, why
		l.j.say("the move fails, all go back to where they were: %s", why)
		for _, k := range m.targets {
			if !k.gone {
				l.act(Action{Type: ActKill, Agent: k.index})
			}
		}
		l.goBack()
	case m.step == returning:
		l.fail(Verdict{Code: Failed, Rank: -1, Died: true, Text: fmt.Sprintf("a move failed (%s), and could not be reverted: %s", m.why, why)})
	}
}

// goBack begins the incarnation of a revert, when the new agents cannot act any more.
func (l *life) goBack() {
	m := l.move
	if m == nil || m.step != quitting || l.ending != nil {
		return
	}
	for _, k := range m.targets {
		if !k.gone {
			return
		}
	}
	for _, rank := range m.ranks {
		if k := m.from[rank]; m.ended[rank] || k.ended {
			l.fail(Verdict{Code: Failed, Rank: rank, Died: true, Text: fmt.Sprintf("a move failed (%s), and the old process of rank %d has ended", m.why, rank)})
			return
		}
	}
	m.step = returning
	l.lineUp(m.back, m.from, Spawned)
	l.act(Action{Type: ActSwitch, Incarnation: l.id, Back: true})
}

// isMade records that a moving rank is restored. When all are, the next incarnation begins.
func (l *life) isMade(rank int) {
	m := l.move
	m.made[rank], l.back.moved = true, true
	if m.step != restoring || l.ending != nil || len(m.made) < len(m.ranks) {
		return
	}
	at := map[int]*link{}
	for _, k := range m.targets {
		for _, rank := range k.share {
			at[rank] = k
		}
		k.joins = false
	}
	m.step = coming
	l.lineUp(m.next, at, None)
	l.act(Action{Type: ActSwitch, Incarnation: l.id})
	for _, k := range m.targets {
		l.send(k, oob.Msg{Kind: oob.Start, To: oob.AgentAddr(k.index), Incarnation: l.id})
	}
}

// lineUp begins an incarnation within the life. at says where the moving ranks are, and phase how
// far they are.
func (l *life) lineUp(id uint64, at map[int]*link, phase Phase) {
	l.past = append(l.past, l.id)
	l.id = id
	l.count = [phases]int{}
	for _, k := range l.links {
		k.Ranks = nil
	}
	for rank := range l.ranks {
		r := &l.ranks[rank]
		r.hello, r.phase = oob.HelloInfo{}, Spawned
		if k := at[rank]; k != nil {
			r.link, r.phase = k, phase
		}
		r.link.Ranks = append(r.link.Ranks, rank)
		for p := None; p <= r.phase; p++ {
			l.count[p]++
		}
	}
	l.wires, l.routes, l.cuts = wireup.New(len(l.ranks)), nil, cuts{}
	l.place()
	l.unmet, l.first = -1, -1
	l.back.moved = true
	l.ckpt = l.ckpt.Successor(id)
}

// switching reports whether an incarnation that a move has begun is on its way.
func (l *life) switching() bool { return l.move != nil && l.move.step >= coming }

// standing reports whether ranks stand for a move, or soon do.
func (l *life) standing() bool {
	return l.move != nil && (l.move.step >= restoring || l.ckpt.Moving())
}

// moveUp ends a move when all ranks are up. From here on nothing can be reverted, and gates open. A process that
// has been replaced never goes on: it stands until it is ended.
func (l *life) moveUp() {
	m := l.move
	if m.step == quitting {
		return
	}
	l.everyone(oob.Msg{Kind: oob.Running, Incarnation: l.id})
	if m.step == coming {
		l.endOld()
	}
	for _, sig := range m.signals {
		l.signal(sig)
	}
	l.moveIsOver(m.why)
	l.allUp()
}

// endOld ends the processes that have been replaced. An agent without ranks is dismissed, except
// the last one on the head's own node, which removes what the job has left if the head dies.
func (l *life) endOld() {
	m := l.move
	for _, rank := range m.ranks {
		switch k := m.from[rank]; {
		case k.ended || k.bye || m.ended[rank]:
		case len(k.Ranks) == 0 && !l.lastOwn(k):
			l.release([]*link{k})
		default:
			l.act(Action{Type: ActSend, Agent: k.index, Msg: oob.Msg{Kind: oob.KillAll, From: oob.Head, To: int32(rank)}})
		}
	}
}

// lastOwn reports whether an agent is the only one that is left on the head's own node.
func (l *life) lastOwn(k *link) bool {
	return k.Own && !slices.ContainsFunc(l.links, func(o *link) bool { return o != k && o.Own && !o.joins && !o.bye && !o.gone && !o.ended })
}

// moveIsOver answers the request for the move. why says why it was not done, "" if it was.
func (l *life) moveIsOver(why string) {
	m := l.move
	l.move = nil
	l.j.stop(m.clock)
	if m.step < coming || m.step == returning || l.ending != nil {
		l.release(m.targets)
	}
	for _, seq := range []int{m.ahead, m.seq} {
		if seq > 0 && (m.step >= coming || l.ending != nil) { // otherwise the checkpoint machine has reported it
			l.act(Action{Type: ActCkpt, Ckpt: ckpt.HeadAction{Type: ckpt.HactDiscard, Seq: seq}})
		}
	}
	if l.ending == nil {
		l.j.state = "running"
	}
	l.act(Action{Type: ActMoved, ID: m.id, Text: why})
}

// release dismisses agents that have no rank of this life. Agents that have processes are ended
// with the life.
func (l *life) release(links []*link) {
	for _, k := range links {
		if len(k.Ranks) == 0 && !k.bye && !k.gone && !k.ended {
			k.bye = true
			m := goodbye()
			m.To = oob.AgentAddr(k.index)
			l.send(k, m)
		}
	}
}

// moveEnds gives a move up with its life.
func (l *life) moveEnds(v *Verdict) {
	if l.move != nil {
		l.moveIsOver("the job is ending, or about to begin again: " + v.Text)
	}
}

// offStage handles frames of agents and processes that, because of a move, have no part in the
// present incarnation. It reports whether the frame was one of these.
func (l *life) offStage(k *link, rank int, msg *oob.Msg) bool {
	m := l.move
	if m == nil {
		return k.joins
	}
	_, moves := m.from[rank]
	switch {
	case k.joins:
		if moves && slices.Contains(m.targets, k) && slices.Contains(k.share, rank) {
			l.ofRestored(k, rank, msg)
		}
		return true
	case m.step == quitting && slices.Contains(m.targets, k):
		return true
	case m.step >= coming && moves && m.from[rank] == k && l.ranks[rank].link != k:
		if msg.Kind == oob.Exit {
			m.ended[rank] = true
		}
		return true
	}
	return false
}

// ofRestored takes an agent's report on a process that it restores for the move.
func (l *life) ofRestored(k *link, rank int, msg *oob.Msg) {
	switch msg.Kind {
	case oob.Spawn:
		if len(msg.Data) > 0 {
			l.act(Action{Type: ActSay, Text: fmt.Sprintf("rank %d: %s", rank, msg.Data), Detail: msg.A != oob.SpawnWaits})
		}
		if msg.A == oob.SpawnWaits {
			l.isMade(rank)
		}
	case oob.Exit:
		why := describe(syscall.WaitStatus(msg.A))
		if len(msg.Data) > 0 {
			why = string(msg.Data)
		}
		l.moveFails(fmt.Sprintf("rank %d could not be restored on %s: %s", rank, k.Host, why))
	}
}

// joinEnded takes the end of the stream to an agent that has no part in the present incarnation yet.
func (l *life) joinEnded(k *link) {
	k.ended = true
	if !k.bye {
		k.lost = true
		l.act(Action{Type: ActKill, Agent: k.index})
		if l.move != nil && slices.Contains(l.move.targets, k) {
			l.moveFails(k.name() + " was lost")
		}
	}
}

// moverLost takes the loss of an agent in the course of a move, after the switch. It reports whether it reverts the
// move, so that it is no loss to the job.
func (l *life) moverLost(k *link) bool {
	m := l.move
	if m == nil || m.step < coming || l.ending != nil {
		return false
	}
	held := false
	for _, rank := range m.ranks {
		if m.from[rank] == k {
			m.ended[rank] = true
			k.lost = true // its processes must have ended before another life begins
			held = true
		}
	}
	target := m.step != returning && slices.Contains(m.targets, k)
	if held || target {
		l.act(Action{Type: ActKill, Agent: k.index})
	}
	if !target {
		return false
	}
	k.lost = true
	l.moveFails(k.name() + " was lost")
	return true
}

// comes reports whether a rank is a new process on its way up, whose failure reverts the move.
func (l *life) comes(rank int) bool {
	return l.move != nil && l.move.step == coming && l.move.from[rank] != nil
}

// misfit ends the life, or the move, whose ranks do not fit together.
func (l *life) misfit(v Verdict) {
	if l.switching() {
		l.moveFails(v.Text)
		return
	}
	l.fail(v)
}

// cannotCome takes a rank's report that it cannot take part in the move.
func (l *life) cannotCome(rank int, why string) {
	text := fmt.Sprintf("rank %d cannot go on with the others%s", rank, colon(why))
	if l.switching() {
		l.moveFails(text)
		return
	}
	l.fail(Verdict{Code: Failed, Rank: rank, Died: true, Text: text})
}

// abortsLate reports whether a rank that stays has ended the job before it heard of the present
// incarnation.
func (l *life) abortsLate(m *oob.Msg) bool {
	return m.Kind == oob.AbortJob && slices.Contains(l.past, m.Incarnation)
}

// signalInMove passes a signal on. Ranks that stand for a move must go on to receive it, as a
// replaced process would take the signal with it. After the switch it waits until all are up.
func (l *life) signalInMove(sig syscall.Signal) {
	switch {
	case l.switching():
		l.move.signals = append(l.move.signals, sig)
	case l.standing():
		l.moveFails("signal " + SignalName(sig) + " came")
		l.signal(sig)
	default:
		l.signal(sig)
	}
}
