// Package phase says what an offload process may do when: a pure state machine. It has no clock, socket
// or goroutine. Events go in through Step, actions come out, and the server carries them out in order.
//
//	             .------------------- Resume ---------------------------------.
//	             v                                                            |
//	Starting -> Running -> Pausing -> Paused(h) -> Capturing(h) -> Captured(h) -> Ended
//	   |         ^            |          | ^            |
//	   |         '-- Revert --+----------+-|------------'
//	   '-> Restoring(h) -------------------'
//
// and from any state Lost(cause), if the device or its library fails, and Ended, if the rank is gone or
// the process is told to end.
//
// The rules:
//
//  1. Commands are taken in Running only. Commands put in the ring meanwhile stay there. It is
//     memory of the rank.
//  2. Paused(h) is reached when the device is idle and all up to command h is done, and what it did is told. So nothing is under
//     way that an image of the rank and a capture of the device would not hold.
//  3. A capture is of h. A restore begins where the ring of the rank stands at that h; elsewhere it is refused.
//  4. A capture that was reported as done lies in its place. One that failed, or that Revert cuts
//     off, is discarded.
//  5. Each order has an attempt. What answers an attempt that is over is dropped: a queue that becomes idle late, or a capture
//     that ends after Revert, changes nothing.
//  6. An order that does not fit the state is refused by name and changes nothing.
//  7. The sender of an order waits with a deadline of its own. The process tells what it waits for when asked (Late).
//
// The words pause, capture, resume and restore are those of Snapify (Rezaei et al., HPDC 2014), whose offload
// processes on a coprocessor go through the same steps.
package phase

import "fmt"

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
	Restoring
	Lost
	Ended
)

var stateNames = [...]string{"starting", "running", "pausing", "paused", "capturing", "captured", "restoring", "lost", "ended"}

func (s State) String() string { return stateNames[s] }

// Event is an input. Only the fields that belong to its Type are set.
type Event struct {
	Type    EventType
	Attempt uint32 // of the order, or of the action that it answers
	Head    uint64 // EvStart: commands that the ring says are done; EvIdle: the last command done; EvRestored: that of the capture
	Where   string // EvCapture, EvRestore: where the capture lies
	End     bool   // EvCapture: the process ends when it is done
	Bytes   int64  // EvCaptured, EvRestored
	Err     string // EvCaptureFailed, EvRestoreFailed, EvFault; EvLate: the kernel that runs
}

// EventType names an Event.
type EventType uint8

// What can happen.
const (
	// Orders.
	EvStart   EventType = 1 + iota // begin with an empty device
	EvRestore                      // begin with what a capture holds
	EvPause
	EvCapture
	EvResume
	EvRevert // the attempt is over, from any state
	EvEnd
	// What the server has done or found.
	EvIdle          // ActDrain was done
	EvLate          // a question what ActDrain waits for
	EvCaptured      // ActCapture was done
	EvCaptureFailed // it cannot be done
	EvRestored      // ActRestore was done
	EvRestoreFailed // it cannot be done
	EvFault         // device or library failed
	EvGone          // the rank is gone
)

var eventNames = [...]string{EvStart: "start", EvRestore: "restore", EvPause: "pause", EvCapture: "capture", EvResume: "resume", EvRevert: "revert", EvEnd: "end",
	EvIdle: "idle", EvLate: "late", EvCaptured: "captured", EvCaptureFailed: "capture-failed", EvRestored: "restored", EvRestoreFailed: "restore-failed",
	EvFault: "fault", EvGone: "gone"}

func (t EventType) String() string { return eventNames[t] }

// Action is an output.
type Action struct {
	Type    ActionType
	Attempt uint32 // to be copied to the event that answers
	State   State  // ActTell: reached
	Head    uint64 // ActTell
	Bytes   int64  // ActTell Captured, and Paused after a restore
	Where   string // ActCapture, ActRestore
	Err     string // ActTell: why the order was refused or failed; ActMark: the cause
}

// ActionType names an Action.
type ActionType uint8

// The actions.
const (
	ActTake    ActionType = 1 + iota // take commands from the ring
	ActDrain                         // take no further one; when the device is idle and all taken is told as done, answer EvIdle
	ActCapture                       // write what only the device has; answer EvCaptured or EvCaptureFailed
	ActDiscard                       // give up ActCapture, or remove what it has written
	ActRestore                       // read a capture and make its objects; answer EvRestored or EvRestoreFailed
	ActTell                          // tell the sender of the order: the state that was reached, or Err
	ActMark                          // write the cause in the ring, so that the rank's waits return it
	ActExit                          // give everything back and end the process
)

// Machine is one offload process. It is not safe for concurrent use. The zero Machine is Starting.
type Machine struct {
	state   State
	attempt uint32
	head    uint64 // in Paused to Captured; in Restoring that of the ring
	end     bool
	out     []Action
}

// State returns where the process stands.
func (m *Machine) State() State { return m.state }

// Head returns the last command that is done, in the states from Paused to Captured.
func (m *Machine) Head() uint64 { return m.head }

// Step feeds one event and returns what is to be done, in this order. The result belongs to the caller.
func (m *Machine) Step(e Event) []Action {
	m.out = nil
	switch {
	case m.state == Ended:
	case e.Type == EvGone, e.Type == EvEnd:
		m.leave(e)
	case m.state == Lost:
		if e.Type < EvIdle {
			m.refuse(e, "the device is lost")
		}
	case e.Type == EvFault:
		if m.state == Capturing {
			m.act(Action{Type: ActDiscard})
		}
		m.state = Lost
		m.act(Action{Type: ActMark, Err: e.Err})
		m.act(Action{Type: ActTell, State: Lost, Err: e.Err})
	case e.Type < EvIdle:
		m.order(e)
	case e.Attempt == m.attempt:
		m.answer(e)
	}
	return m.out
}

func (m *Machine) act(a Action) {
	a.Attempt = m.attempt
	m.out = append(m.out, a)
}

func (m *Machine) tell() { m.act(Action{Type: ActTell, State: m.state, Head: m.head}) }

func (m *Machine) refuse(e Event, why string) {
	m.out = append(m.out, Action{Type: ActTell, Attempt: e.Attempt, State: m.state, Err: fmt.Sprintf("%v refused: %s", e.Type, why)})
}

// from says in which state an order is obeyed.
var from = map[EventType]State{EvStart: Starting, EvRestore: Starting, EvPause: Running, EvCapture: Paused}

func (m *Machine) order(e Event) {
	if want, ok := from[e.Type]; ok && m.state != want {
		m.refuse(e, fmt.Sprintf("the offload process is %v, not %v", m.state, want))
		return
	}
	switch e.Type {
	case EvStart:
		m.attempt, m.head = e.Attempt, e.Head
		m.run()
	case EvRestore:
		m.attempt, m.state, m.head = e.Attempt, Restoring, e.Head
		m.act(Action{Type: ActRestore, Where: e.Where})
	case EvPause:
		m.attempt, m.state = e.Attempt, Pausing
		m.act(Action{Type: ActDrain})
	case EvCapture:
		m.attempt, m.state, m.end = e.Attempt, Capturing, e.End
		m.act(Action{Type: ActCapture, Where: e.Where})
	case EvResume:
		if m.state != Paused && m.state != Captured {
			m.refuse(e, fmt.Sprintf("the offload process is %v, not paused or captured", m.state))
			return
		}
		m.attempt = e.Attempt
		m.run()
	case EvRevert:
		m.revert(e)
	}
}

// run opens the ring again.
func (m *Machine) run() {
	m.state = Running
	m.act(Action{Type: ActTake})
	m.tell()
}

// revert goes back to Running from wherever an attempt has come. A process that has nothing to go back to
// says so.
func (m *Machine) revert(e Event) {
	switch m.state {
	case Starting, Restoring:
		m.refuse(e, fmt.Sprintf("the offload process is %v; end it instead", m.state))
		return
	case Capturing, Captured:
		m.act(Action{Type: ActDiscard})
	}
	m.attempt = e.Attempt
	if m.state == Running {
		m.tell()
		return
	}
	m.run()
}

// answer takes the outcome of an action of the present attempt.
func (m *Machine) answer(e Event) {
	switch {
	case e.Type == EvIdle && m.state == Pausing:
		m.state, m.head = Paused, e.Head
		m.tell()
	case e.Type == EvLate && m.state == Pausing:
		m.act(Action{Type: ActTell, State: Pausing, Err: "still waits for " + e.Err})
	case e.Type == EvCaptured && m.state == Capturing:
		m.state = Captured
		m.act(Action{Type: ActTell, State: Captured, Head: m.head, Bytes: e.Bytes})
		if m.end {
			m.leave(e)
		}
	case e.Type == EvCaptureFailed && m.state == Capturing:
		m.act(Action{Type: ActDiscard})
		m.state = Paused
		m.act(Action{Type: ActTell, State: Paused, Head: m.head, Err: "capture failed: " + e.Err})
	case e.Type == EvRestored && m.state == Restoring:
		m.restored(e)
	case e.Type == EvRestoreFailed && m.state == Restoring:
		m.lose("restore failed: " + e.Err)
	}
}

// restored compares the capture with the ring: both must be of one instant.
func (m *Machine) restored(e Event) {
	if e.Head != m.head {
		m.lose(fmt.Sprintf("restore refused: the capture was taken after command %d, the rank's ring stands at %d; restore the rank of the same snapshot", e.Head, m.head))
		return
	}
	m.state = Paused
	m.act(Action{Type: ActTell, State: Paused, Head: m.head, Bytes: e.Bytes})
}

// lose ends a process that never ran. The ring is not marked: another may be started behind it.
func (m *Machine) lose(why string) {
	m.act(Action{Type: ActTell, State: m.state, Err: why})
	m.state = Ended
	m.act(Action{Type: ActExit})
}

// leave ends the process. A reported capture stays where it is.
func (m *Machine) leave(e Event) {
	if m.state == Capturing {
		m.act(Action{Type: ActDiscard})
	}
	m.state = Ended
	if e.Type != EvGone {
		if e.Type == EvEnd {
			m.attempt = e.Attempt
		}
		m.tell()
	}
	m.act(Action{Type: ActExit})
}
