// Package sessions says what an agent does with the offload processes of one of its ranks, and when: a pure state machine
// without clock, socket or goroutine. Events go in through Step, actions come out, and the agent carries them out in order.
//
// An offload process is a rank without a number to the checkpoint protocol (package ckpt). It takes commands from the ring of its rank
// (package offload) and orders from the agent, which is its parent. So the rank has nothing of it but the ring, which is memory:
//
//	head           agent                        rank                    offload processes
//	 Close ------>  ------------------------->   closes its gate
//	                pause ---------------------------------------------> finishes what it has taken
//	                <------------------------    drained
//	                <--------------------------------------------------- paused, after command h
//	 <- Ready ----  when both are
//	 Capture ---->  what is valid at the host? ->
//	                <------------------------    skips: the device's copies of that are stale now
//	                capture -------------------------------------------> reads the rest from the device
//	                images the rank              (its ring stands at h, with what it has put since)
//	 <- Captured -  when both are
//	 Open ------->  ------------------------->   opens its gate
//	                resume --------------------------------------------> takes commands
//
// The rules:
//
//  1. Only the end of a process is a death. One that says nothing has much to do, or is paused.
//  2. Ready is said when the rank is drained, for this attempt, and every process is paused. Until Open or Revert no process takes a command.
//  3. What the program begins, to open, pause or close a device, waits while an attempt is under way. What it had begun before is
//     awaited by the attempt: it may be between Pause and Resume, and a process may be starting.
//  4. Which memories are valid at the host is asked when all processes are paused, and nothing is captured before the answer.
//  5. Captured is said when all are. Nothing is resumed before the gate opens.
//  6. A death fails the attempt and is reported to the rank, at once.
//  7. A rank that was restored has its processes paused, and they are resumed when it goes on.
//  8. A user swaps a process out: it is paused and captured in the same way, and ends. The rank knows nothing of it: its commands stay
//     in the ring. What the program asks for waits until it is swapped in.
//  9. The capture of a process that is swapped out goes into a checkpoint unchanged, because its
//     ring stands where it was captured. A swap under way is awaited, and none begins until the
//     attempt is over.
//  10. No attempt succeeds while the rank has lost a process that the program has not closed yet: it may not know of the loss, or be about to end, and
//     each restart would begin with that.
package sessions

import (
	"fmt"
	"slices"
	"strings"
)

// State is where an offload process stands.
type State uint8

// The states.
const (
	Starting State = iota
	Running
	Pausing
	Paused
	Capturing
	Captured
	Resuming
)

var stateNames = [...]string{"starting", "running", "pausing", "paused", "capturing", "captured", "resuming"}

func (s State) String() string { return stateNames[s] }

// Event is an input. Only the fields that belong to its Type are set.
type Event struct {
	Type    EventType
	ID      uint64 // of the process; the rank has chosen it
	Attempt uint32 // EvGate, EvDrained: of the checkpoint
	Op      Op     // EvAsk
	Due     bool   // EvDied: it was told to end, or has never begun
	Err     string // EvPaused, EvCaptured, EvResumed: why not; EvDied: how
}

// EventType names an Event.
type EventType uint8

// What can happen.
const (
	// The program.
	EvAsk EventType = 1 + iota // the rank asks for Op
	// A process.
	EvStarted  // it has opened its device
	EvTheirs   // an order of the program has made it run again
	EvPaused   // ActPause was done; with Err it was refused
	EvCaptured // ActCapture was done, or not
	EvResumed  // ActResume or ActRevert was done, or not
	EvDied     // it has ended
	// The head and the rank.
	EvGate     // the gate is to close for an image of the whole process
	EvDrained  // the rank says Ready
	EvCapture  // the rank is to be imaged
	EvSkips    // the rank has said what need not be captured
	EvOpen     // the gate opens
	EvRevert   // the attempt is over without a snapshot
	EvRestored // of a rank that was restored, and stands: this process has what the image holds, and is paused
	EvStored   // of such a rank: what the image holds of this process is swapped out
	// A user.
	EvSwapOut
	EvSwapIn
	EvGiveUp // it is not to be waited for any longer; Err says for what
)

var eventNames = [...]string{EvAsk: "ask", EvStarted: "started", EvTheirs: "theirs", EvPaused: "paused", EvCaptured: "captured", EvResumed: "resumed", EvDied: "died",
	EvGate: "gate", EvDrained: "drained", EvCapture: "capture", EvSkips: "skips", EvOpen: "open", EvRevert: "revert", EvRestored: "restored", EvStored: "stored", EvSwapOut: "swap-out", EvSwapIn: "swap-in", EvGiveUp: "give-up"}

func (t EventType) String() string { return eventNames[t] }

// Op is what a program asks for.
type Op uint8

// The Ops.
const (
	OpStart  Op = 1 + iota // a process; again for one that it has swapped out
	OpPause                // the first order of the program's own pause
	OpFollow               // any other order: it belongs to what the program has begun
	OpEnd                  // the end of the process
)

var opNames = [...]string{OpStart: "start", OpPause: "pause", OpFollow: "follow", OpEnd: "end"}

func (o Op) String() string { return opNames[o] }

// Action is an output.
type Action struct {
	Type ActionType
	ID   uint64
	Err  string // ActFail, ActTell
}

// ActionType names an Action.
type ActionType uint8

// The actions.
const (
	ActStart   ActionType = 1 + iota // start the process that was asked for; EvStarted or EvDied follows
	ActPass                          // give the process the oldest order of the program that was not passed
	ActEnd                           // end the process; EvDied follows
	ActPause                         // order a pause; answered by EvPaused
	ActReady                         // tell the head that the rank is ready
	ActSkips                         // ask the rank what is valid at the host; answered by EvSkips
	ActCapture                       // order a capture; answered by EvCaptured
	ActImage                         // image the rank, beside the captures
	ActDone                          // all captures are there
	ActResume                        // order it to go on; answered by EvResumed
	ActRevert                        // the same, from wherever it stands; what was captured is discarded
	ActFail                          // the attempt cannot succeed
	ActTell                          // tell the rank of a death
	ActSkip                          // ask the rank what of this process is valid at the host; answered by EvSkips with its number
	ActLeave                         // order a capture with which the process ends; answered by EvCaptured, and EvDied follows
	ActReturn                        // start a process with what that holds; EvStarted or EvDied follows
	ActSwapped                       // tell the user that it is done
	ActRefuse                        // tell the user why not
)

var actionNames = [...]string{ActStart: "start", ActPass: "pass", ActEnd: "end", ActPause: "pause", ActReady: "ready", ActSkips: "skips", ActCapture: "capture",
	ActImage: "image", ActDone: "done", ActResume: "resume", ActRevert: "revert", ActFail: "fail", ActTell: "tell",
	ActSkip: "skip", ActLeave: "leave", ActReturn: "return", ActSwapped: "swapped", ActRefuse: "refuse"}

func (t ActionType) String() string { return actionNames[t] }

// phase is how far an attempt is.
type phase uint8

const (
	open      phase = iota // there is none
	gathering              // processes and rank are awaited
	ready                  // Ready was said
	asking                 // which memories are valid at the host
	capturing
	done
	failed // the end of the attempt is awaited
)

// process is an offload process.
type process struct {
	id     uint64
	state  State
	theirs bool // the program has it paused, or swapped out
	gone   bool // swapped out by the program: there is no process
	ending bool // the program has closed it
	swap   swap
}

// Rank is the offload processes of a rank. It is not safe for concurrent use. The zero Rank has none.
type Rank struct {
	phase   phase
	attempt uint32
	drained bool
	all     []*process // in the order in which they were asked for
	held    []Event    // what the program asks for meanwhile, and who is to be swapped in after an attempt
	lost    []Event    // the deaths of processes that the program has not closed
	out     []Action
}

// Held reports whether an attempt is under way.
func (r *Rank) Held() bool { return r.phase != open }

// Has reports whether there is a process of that number, or a place that the program is to fill again.
func (r *Rank) Has(id uint64) bool { return r.of(id) != nil }

// Busy returns the processes that have work to finish.
func (r *Rank) Busy() (ids []uint64) {
	for _, p := range r.all {
		if p.state == Pausing {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// All returns the processes, in the order in which they were asked for.
func (r *Rank) All() (ids []uint64) {
	for _, p := range r.all {
		ids = append(ids, p.id)
	}
	return ids
}

// In returns those of them that are not swapped out by a user.
func (r *Rank) In() (ids []uint64) {
	for _, p := range r.all {
		if p.swap != out {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// Asked reports whether the program waits until a process is swapped in.
func (r *Rank) Asked(id uint64) bool {
	return slices.ContainsFunc(r.held, func(h Event) bool { return h.ID == id && h.Type == EvAsk })
}

// Says is the state of a process for people.
func (r *Rank) Says(id uint64) string {
	switch p := r.of(id); {
	case p == nil:
		return "lost"
	case p.gone:
		return "swapped out by the program"
	case p.theirs:
		return "paused by the program"
	case p.swap == out:
		return "swapped out"
	default:
		return p.state.String()
	}
}

// Step feeds one event and returns what is to be done, in this order. The result belongs to the caller.
func (r *Rank) Step(e Event) []Action {
	r.out = nil
	p := r.of(e.ID)
	if r.swapped(e, p) {
		return r.out
	}
	switch e.Type {
	case EvAsk:
		r.ask(e, p)
	case EvStarted, EvTheirs:
		r.runs(e, p)
	case EvPaused, EvCaptured, EvResumed:
		r.answer(e, p)
	case EvDied:
		r.died(e, p)
	case EvRestored:
		r.phase = done
		r.all = append(r.all, &process{id: e.ID, state: Paused})
	case EvStored:
		r.phase = done
		r.all = append(r.all, &process{id: e.ID, state: Paused, swap: out})
	default:
		r.checkpoint(e)
	}
	return r.out
}

func (r *Rank) of(id uint64) *process {
	i := slices.IndexFunc(r.all, func(p *process) bool { return p.id == id })
	if i < 0 {
		return nil
	}
	return r.all[i]
}

func (r *Rank) act(t ActionType, id uint64) { r.out = append(r.out, Action{Type: t, ID: id}) }

func (r *Rank) fail(format string, args ...any) {
	if r.phase != open && r.phase != failed {
		r.phase = failed
		r.out = append(r.out, Action{Type: ActFail, Err: fmt.Sprintf(format, args...)})
	}
}

// ask takes a wish of the program, now or when the attempt is over. What follows on its own pause goes on.
func (r *Rank) ask(e Event, p *process) {
	if p == nil && e.Op == OpEnd {
		r.lost = slices.DeleteFunc(r.lost, func(d Event) bool { return d.ID == e.ID })
		return
	}
	if p != nil && p.swap != in && (p.swap != out || e.Op != OpEnd) || r.phase != open && (p == nil || !p.theirs) || slices.ContainsFunc(r.held, func(h Event) bool { return h.ID == e.ID }) {
		r.held = append(r.held, e)
		return
	}
	switch {
	case e.Op == OpStart && p == nil:
		r.all = append(r.all, &process{id: e.ID})
		r.act(ActStart, e.ID)
	case p == nil: // it has died, and the rank is told
	case e.Op == OpStart:
		p.state, p.gone = Starting, false
		r.act(ActStart, e.ID)
	case e.Op == OpEnd:
		p.ending = true
		r.act(ActEnd, e.ID)
	default:
		p.theirs = p.theirs || e.Op == OpPause
		r.act(ActPass, e.ID)
	}
}

// runs notes that a process takes commands. An attempt may have waited for that.
func (r *Rank) runs(e Event, p *process) {
	if p == nil || e.Type == EvTheirs && !p.theirs {
		return
	}
	p.theirs = p.theirs && e.Type != EvTheirs
	p.state = Running
	r.pause(p)
}

// pause pauses a process for the attempt under way, unless the program has it.
func (r *Rank) pause(p *process) {
	if r.phase == gathering && p.state == Running && !p.theirs && p.swap == in {
		p.state = Pausing
		r.act(ActPause, p.id)
	}
}

// answer takes what a process says to an order of this machine.
func (r *Rank) answer(e Event, p *process) {
	if p == nil {
		return
	}
	want := map[EventType]State{EvPaused: Pausing, EvCaptured: Capturing, EvResumed: Resuming}[e.Type]
	if p.state != want {
		return // to an order that was reverted
	}
	switch {
	case e.Type == EvResumed && e.Err != "":
		r.act(ActEnd, p.id) // it would stand without end
	case e.Type == EvResumed:
		p.state = Running
		r.pause(p)
	case e.Err != "":
		p.state = Paused
		if e.Type == EvPaused {
			p.state = Running
		}
		r.fail("%s", e.Err)
	case e.Type == EvPaused:
		p.state = Paused
		r.look()
	default:
		p.state = Captured
		r.look()
	}
}

// are reports whether all processes have come to a state. Those that are swapped out have done so long ago.
func (r *Rank) are(s State) bool {
	return !slices.ContainsFunc(r.all, func(p *process) bool { return p.swap != out && (p.state != s || p.theirs || p.swap != in) })
}

// look goes on when all that was awaited is there.
func (r *Rank) look() {
	switch {
	case r.phase == gathering && r.drained && r.are(Paused):
		r.phase = ready
		r.act(ActReady, 0)
	case r.phase == capturing && r.are(Captured):
		r.phase = done
		r.act(ActDone, 0)
	}
}

// died takes the end of a process. One that the program has swapped out comes back.
func (r *Rank) died(e Event, p *process) {
	if p == nil {
		return
	}
	r.out = append(r.out, Action{Type: ActTell, ID: p.id, Err: e.Err})
	if e.Due && p.theirs && !p.ending {
		p.gone = true
		return
	}
	r.all = slices.DeleteFunc(r.all, func(q *process) bool { return q == p })
	if !e.Due {
		if !p.ending {
			r.lost = append(r.lost, e)
		}
		r.fail("%s", e.Err)
		return
	}
	r.look()
}

// checkpoint takes a word of the head, or of the rank to the head.
func (r *Rank) checkpoint(e Event) {
	switch e.Type {
	case EvGate:
		r.phase, r.attempt, r.drained = gathering, e.Attempt, false
		if len(r.lost) > 0 {
			r.fail("%s; the program is to close the device before a checkpoint, else each restart would begin with the loss", r.lost[0].Err)
			return
		}
		for _, p := range r.all {
			r.pause(p)
		}
	case EvDrained:
		if r.phase != gathering {
			if r.phase == open {
				r.act(ActReady, 0)
			}
			return
		}
		if e.Attempt != r.attempt {
			return // it was drained for an attempt that is over
		}
		r.drained = true
		r.look()
	case EvCapture:
		r.capture()
	case EvSkips:
		if r.phase != asking {
			return
		}
		r.phase = capturing
		for _, id := range r.In() {
			r.of(id).state = Capturing
			r.act(ActCapture, id)
		}
		r.act(ActImage, 0)
		r.look()
	case EvOpen, EvRevert:
		r.resume(e.Type)
	}
}

// capture begins to capture, or images a rank at once that has no processes but those that are swapped out.
func (r *Rank) capture() {
	switch {
	case r.phase != ready:
	case len(r.In()) == 0:
		r.phase = done
		r.act(ActImage, 0)
		r.act(ActDone, 0)
	default:
		r.phase = asking
		r.act(ActSkips, 0)
	}
}

// resume ends the attempt. What the program has asked for meanwhile is done then.
func (r *Rank) resume(how EventType) {
	if r.phase == open {
		return
	}
	act := ActResume
	if how == EvRevert {
		act = ActRevert
	}
	r.phase = open
	for _, p := range r.all {
		switch {
		case p.theirs || p.swap != in || p.state == Starting || p.state == Running || p.state == Resuming:
		case act == ActResume && (p.state == Pausing || p.state == Capturing): // the head goes on without this rank's part
			p.state = Resuming
			r.act(ActRevert, p.id)
		default:
			p.state = Resuming
			r.act(act, p.id)
		}
	}
	r.release()
}

// release does what was held, as far as it may be done now.
func (r *Rank) release() {
	held := r.held
	r.held = nil
	for _, e := range held {
		if p := r.of(e.ID); e.Type == EvSwapIn {
			r.swapped(e, p)
		} else {
			r.ask(e, p)
		}
	}
}

// Waits says in words which processes keep the rank from being ready, and why; name names one. "" if none does.
func (r *Rank) Waits(name func(id uint64) string) string {
	var why []string
	for _, p := range r.all {
		switch {
		case r.phase != gathering && r.phase != capturing:
		case p.gone:
			why = append(why, fmt.Sprintf("the program has swapped %s out: it is to swap it in before a checkpoint", name(p.id)))
		case p.swap == out:
		case p.swap != in && p.state != Pausing:
			why = append(why, fmt.Sprintf("%s is being swapped", name(p.id)))
		case p.theirs:
			why = append(why, fmt.Sprintf("the program has paused %s: it is to resume it before a checkpoint", name(p.id)))
		case p.state == Starting:
			why = append(why, fmt.Sprintf("%s is being opened", name(p.id)))
		case p.state == Pausing:
			why = append(why, fmt.Sprintf("%s is to finish what it has begun", name(p.id)))
		case p.state == Capturing:
			why = append(why, fmt.Sprintf("the content of %s is being read", name(p.id)))
		}
	}
	return strings.Join(why, "; ")
}
