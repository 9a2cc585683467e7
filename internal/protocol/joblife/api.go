// Package joblife is the life of a job as a pure state machine: start-up, wire-up, the death of ranks, agents
// and links, the verdict, restarts, the end. It has no clocks, sockets, processes or goroutines. Events go in
// through Step, and actions come out. The driver of the machine carries them out in order. The launcher drives
// it with processes, package sim with simulated ones.
//
// A job has lives, one after the other. Each is an incarnation of its ranks:
//
//	Begin -> Begun -> Order -> Ordered -> spawned -> greeted -> addressed
//	      -> reached -> up -> finalized -> exited -> link ended
//
// A life ends when all its links have ended. A link that broke counts only when its agent is Gone, so that
// nothing of it can act any more. Then either the next life begins (Choose, Chosen, Begin), or the job gets its
// verdict. There is one verdict:
//
//	Verdict -> Cleaned -> goodbye to all agents -> all Gone -> End
//
// Two nodes that are cut off from one another while the head sees both end the life by a verdict
// that names them. Before it, LeaveOut names each agent whose node must not be used in a later
// life. The driver excludes the node, and places the ranks on others when it is asked to Begin. If
// there are too few nodes it answers with a Begun with a Verdict. A node that was left out may be
// used again once a user says that its network is mended.
//
// Inside a life the machine keeps two others. That of package wireup lets the ranks find how they reach each
// other. That of package ckpt takes checkpoints. Ranks and agents speak to the machine in frames of package
// oob. Of a life that is over, only the end of its agents still counts; other events are dropped.
//
// # Rules
//
//   - The cause counts, not its consequences. A death makes other ranks fail, and reports of several agents arrive in
//     any order. A death by signal and a lost agent are first causes. A status other than zero waits for a surer
//     cause, and longer if the rank says that it lost a peer.
//   - A job has one verdict. It comes when nothing runs any more and no commit is under way.
//   - No life begins before the last one is over, as far as anything of it could act: an agent whose stream broke may
//     live on until its manager, or its lease (package lease), says otherwise.
//   - The head takes frames of its own incarnation only, and from an agent only those for that agent's ranks.
//   - While a job is suspended no deadline counts and no life begins. It is held first, so no gate is closed.
//   - No restored rank goes before all are restored. So a restart that fails leaves the user's files as they were.
//   - A rank never has two processes that run. Of a rank that moves the old one stands, traced, until it is ended or
//     the move is reverted.
package joblife

import (
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Event is one input. Only the fields that belong to its Type are set.
type Event struct {
	Type     EventType
	Life     int            // EvBegun ... EvGone, EvFail, EvCkpt: the number of the life, counted from 1
	Agent    int            // EvFrame, EvLinkEnded, EvGone
	Msg      oob.Msg        // EvFrame
	Timer    uint64         // EvTimeout
	Begun    Begun          // EvBegun, EvJoined
	Verdict  *Verdict       // EvBegun, EvJoined, EvProgram, EvOrdered: why it failed, nil if it did not; EvFail, EvFinish, EvStop
	Polite   bool           // EvFail, EvFinish: ranks get SIGTERM and a moment first
	Signal   syscall.Signal // EvSignal, EvStop
	Request  ckpt.Request   // EvRequest
	ID       uint64         // EvHold ... EvResume, EvMove: chosen by the driver; comes back in ActHeld, ActMoved
	Text     string         // EvHold: who holds
	Ckpt     ckpt.HeadEvent // EvCkpt
	Slow     float64        // EvTick: how many times longer things take than on an idle machine; at least 1
	Works    int            // EvStoring: operations of the storage in progress
	Snapshot int            // EvChosen: sequence number of the snapshot, 0: from the start
	Refused  bool           // EvChosen: there is no state to go on from
	Ranks    []int          // EvMove
}

// EventType names an Event.
type EventType uint8

// What can happen to a job.
const (
	EvStart     EventType = 1 + iota // the first life is to begin
	EvBegun                          // answer to ActBegin: agents were started
	EvProgram                        // the program is there, or cannot be built
	EvOrdered                        // answer to ActOrder: the agents were told to start their ranks
	EvFrame                          // a frame of an agent or, through it, of a rank
	EvLinkEnded                      // the stream to an agent has ended
	EvGone                           // nothing of an agent or its ranks is left, or can act any more
	EvTick                           // time for a heartbeat, on a machine that is Slow
	EvTimeout                        // a timer ran out
	EvFail                           // the life fails for a reason of the driver's
	EvFinish                         // a user wants the job ended: no restart
	EvInterrupt                      // ^C: the first time ranks get SIGINT and a moment, the second time they are killed
	EvStop                           // a signal after which the ranks may end in their own way, for a while: no restart; the second time they are killed
	EvSignal                         // a signal to be passed on
	EvRequest                        // somebody wants a checkpoint
	EvCkpt                           // answer to an ActCkpt
	EvHold                           // a user keeps checkpoints off; ActHeld answers when none can be taken any more
	EvRelease                        // the user releases checkpoints; ActHeld answers
	EvSuspend                        // all ranks are to be stopped; ActHeld answers when they are
	EvResume                         // the ranks are to go on; ActHeld answers
	EvStoring                        // the number of the storage's operations in progress has changed
	EvChosen                         // answer to ActChoose
	EvCleaned                        // answer to ActVerdict: all that the job had made for itself is removed
	EvMove                           // a user moves ranks to other nodes; ActMoved answers
	EvJoined                         // answer to ActJoin: agents were started
)

// Begun is what was started for a life.
type Begun struct {
	Incarnation uint64
	Back        uint64 // EvJoined: the incarnation in which a move that fails is reverted
	Agents      []Agent
	Restore     int64 // milliseconds without progress after which a restart from native images is given up; 0: it is none
	Fetched     bool  // images come from other nodes: a rank that cannot be started may be startable from another snapshot
}

// Agent is an agent that was started, and its share of the ranks.
type Agent struct {
	Host  string // the node it runs on
	PID   int    // on that host; for people
	Ranks []int
	Own   bool // it is on the head's own node
	Node  int  // agents of one node have the same number, from 0
}

// Action is one output. Only the fields that belong to its Type are set.
type Action struct {
	Type        ActionType
	Life        int             // ActBegin ... ActKill, ActCkpt: the number of the life
	Agent       int             // ActSend, ActKill, ActLeaveOut; ActJoin: the first of the new ones
	Msg         oob.Msg         // ActSend
	Timer       uint64          // ActTimer, ActStopTimer
	Millis      int64           // ActTimer
	Ckpt        ckpt.HeadAction // ActCkpt; ActRestore: the images
	Incarnation uint64          // ActSwitch
	Text        string          // ActSay, ActLeaveOut; ActHeld, ActMoved: why not, "" if it is done
	ID          uint64          // ActHeld, ActJoin, ActRestore, ActMoved: of the event
	Detail      bool            // ActSay: only for users who want details
	Verdict     Verdict         // ActChoose: why; ActVerdict
	Left        []int           // ActChoose: snapshots that are chosen only if no other can be
	Ranks       []int           // ActJoin
	Back        bool            // ActSwitch
	Snapshot    int             // ActBegin: what to begin from, 0: from the start; in the first life the driver knows
}

// ActionType names an Action.
type ActionType uint8

// The actions of the driver.
const (
	ActBegin     ActionType = 1 + iota // start the agents of a life; answer EvBegun
	ActOrder                           // tell the agents to start their ranks; answer EvOrdered
	ActSend                            // send Msg to the agent
	ActKill                            // end the agent, with its ranks; EvGone follows
	ActTimer                           // start timer Timer with Millis
	ActStopTimer                       // stop it
	ActCkpt                            // a ckpt.HeadAction: a folder, a commit, a discard, an answer, progress
	ActConnected                       // how the ranks reach each other is known: Transports
	ActUp                              // all ranks are up
	ActHeld                            // answer to EvHold, EvRelease, EvSuspend and EvResume
	ActSuspended                       // the ranks are stopped: the driver's limits of time do not count
	ActResumed                         // they do again
	ActSay                             // tell the user Text
	ActChoose                          // find the snapshot to restart from after Verdict; answer EvChosen
	ActVerdict                         // the job is over, with Verdict; answer EvCleaned
	ActEnd                             // no agent is left: no action follows
	ActLeaveOut                        // use the node of the agent in no later life: it is cut off from another, and this life ends
	ActJoin                            // start agents, from Agent on, on the nodes where Ranks go; always answer EvJoined
	ActRestore                         // tell these agents to restore the ranks from the images of Ckpt
	ActSwitch                          // the next incarnation begins: tell all ranks that stay where they are (Back: all)
	ActMoved                           // answer to EvMove
)

// Phase is how far a rank has come.
type Phase uint8

// The phases of a rank.
const (
	None      Phase = iota
	Spawned         // the process runs
	Greeted         // it called Init
	Addressed       // its addresses are known
	Up              // Init returned
	Final           // it was released from Finalize
	Exited
	phases
)

func (p Phase) String() string {
	return [...]string{"not started", "started", "in Init", "in Init", "running", "finalized", "exited"}[p]
}

// Exit statuses that the machine gives. If a rank fails, its own is passed on: the exit code, or 128 plus the
// signal that killed it.
const (
	Failed     = 1
	CannotExec = 126
	SignalBase = 128
)
