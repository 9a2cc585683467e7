// Package ckpt is the checkpoint protocol as two pure state machines: Rank, one in every rank, and Head, one
// per job. They have no clocks, sockets or goroutines. Events go in through Step, and actions come out. The
// driver of the machine carries them out in order.
//
// Only the head decides; ranks report. A rank walks through these states:
//
//	Running -> Closing -> Exchanging -> Draining -> Ready -> (all ready)
//	        -> Captured -> (all captured) -> Running
//
// When the head says Revert, a rank goes from any state back to Running, without a snapshot. Messages of
// another incarnation or attempt are dropped.
//
// A portable image has a part before this, with the gate open. Prepare reads the count of Points and arms "stop
// at the next Point", in one step. The head announces T = largest count + 1 (Target). Ranks below T go on, and
// all stop at T (AtPoint). Only then does Close follow.
//
// For a native image the agent images the rank from outside, while the rank is Ready. The rank learns of it by
// Open, or by Commit if the job is to end. An auto attempt begins as a self attempt. If a rank cannot or does
// not stop at a Point, it becomes a native one, by Close.
//
// # Rules
//
// Each rule has a mutant in package sim that breaks it, under the same number.
//
//  1. Closing: the gate is taken. Callers that are blocked are woken and park. A handshake under way is finished or
//     torn down.
//  2. A rank receives in every state up to Ready, so a frame that was begun is finished. It begins none.
//  3. "Sent" means that the transport has accepted the frame. All of it is flushed before the exchange. What was not
//     accepted is still part of a request, and so of the rank's memory.
//  4. Exchanging: ranks exchange bookmarks over the out-of-band channel, with one distinct partner a step. In large
//     jobs a reduction first tells each rank how many senders it has; then only pairs that talked exchange.
//     See package bookmarks.
//  5. Draining lasts until received equals sent for every peer. Replies that it causes wait, uncounted, for the gate
//     to open. No direct copy is under way once a bookmark was sent.
//  6. Boards are neither counted nor drained: each rank copies its own. Frames in shared memory become private.
//  7. No rank is captured before all are Ready. No gate opens before all are Captured. The commit comes later, and
//     waits for storage alone.
//  8. While the gate is closed, a dead connection is no failure.
//  9. Ranks leave Init and Finalize when the head lets them. It keeps them there while a checkpoint runs.
package ckpt

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// State is where a rank stands in the protocol.
type State uint8

// The states of a rank.
const (
	Running State = iota
	Preparing
	Closing
	Exchanging
	Draining
	Ready
	Capturing
	Captured
)

// RankEvent is one input of the Rank machine. Only the fields that belong to its Type are set.
type RankEvent struct {
	Type RankEventType
	// Attempt is that of the action which the event answers (RankAction.Attempt). It is set in all events but
	// EvMsg. An answer is dropped if its attempt is over.
	Attempt uint32
	Msg     oob.Msg  // EvMsg
	N       uint64   // EvArmed: Points entered so far; EvAtPoint: the Point's number; EvCaptured: bytes; EvWhere: 1 if the program waits for other ranks; EvUnable: 1 if nothing is registered
	Sent    []uint64 // EvFlushed: bytes sent, by rank, final while the gate is closed. The machine keeps it.
	Recv    []uint64 // EvProgress: bytes received so far, by rank; borrowed for the call
	Err     string   // EvFailed, EvUnable: why
	Info    []byte   // EvWritten: JSON of oob.ImageInfo; EvWhere: the answer
	Size    uint64   // EvWritten, EvWriting: bytes; EvAtPoint: ns that the program has stood for to get ready
}

// RankEventType names a RankEvent.
type RankEventType uint8

// What can happen to a rank.
const (
	EvMsg      RankEventType = 1 + iota // a message of the head or, if a Bookmark, of another rank
	EvArmed                             // ActArm was done
	EvAtPoint                           // the program stands at the Point it was stopped at
	EvClosed                            // ActCloseGate was done: no goroutine is inside the library
	EvFlushed                           // ActFlush was done: all accepted frames have left, no handshake is in progress
	EvProgress                          // bytes were received (only after ActDrain was asked for)
	EvCaptured                          // ActCapture was done: the copy stands, the program may go on
	EvWriting                           // so many bytes of the image are written
	EvWritten                           // the image is durable
	EvFailed                            // something of this attempt failed here
	EvUnable                            // the rank cannot be imaged at a Point: answer to ActArm or ActRunTo
	EvWhere                             // answer to ActWhere
)

// RankAction is one output of the Rank machine.
type RankAction struct {
	Type    RankActionType
	Attempt uint32  // to be copied to the events that answer
	Msg     oob.Msg // ActSend
	N       uint64  // ActArm: oob.ModeSelf, or ModeAuto where whole processes can be imaged instead; ActRunTo: the Point to stop at; ActCommitted: sequence number
	Data    []byte  // ActCapture: JSON of oob.CaptureConfig; ActReverted: why
}

// RankActionType names a RankAction.
type RankActionType uint8

// The actions of a rank.
const (
	ActSend      RankActionType = 1 + iota // send Msg (From, Incarnation, Attempt are filled in)
	ActArm                                 // read the Point count and stop at the next Point, in one step; answer EvArmed or EvUnable
	ActRunTo                               // release a stopped or running program up to Point N; answer EvAtPoint or EvUnable
	ActCloseGate                           // close the gate; answer EvClosed
	ActFlush                               // flush and quiesce, receiving all the while; answer EvFlushed
	ActDrain                               // keep receiving; feed EvProgress at once, and after each step that received something, until ActReady or ActOpenGate
	ActReady                               // draining is over: nothing may arrive any more
	ActCapture                             // make the image's copy; answer EvCaptured, later EvWritten, or EvFailed
	ActOpenGate                            // open the gate (no-op if it is open), release the Point (no-op if not held), Continue the modules
	ActDiscard                             // give up a copy or a write in progress, remove the partial file
	ActWhere                               // say what the program is doing; answer EvWhere
	ActCommitted                           // the snapshot N is committed
	ActReverted                            // the attempt is over without a snapshot
)

// HeadEvent is one input of the Head machine.
type HeadEvent struct {
	Type    HeadEventType
	Msg     oob.Msg // HvMsg
	Request Request // HvRequest; HvHold: only the ID
	Rank    int     // HvDied
	Err     string  // HvDied, HvFolderFailed, HvCommitFailed, HvNative, HvMoveFailed, HvAhead: why; HvHold: the holder
	Timer   uint64  // HvTimeout: the timer's id, as in HactTimer
	Store   string  // HvFolder: the store that images go into, by its name; "": a folder
	Folder  string  // HvFolder: where images go, the folder or the set in the store
	Holder  Holder  // HvHold, HvRelease
	Seq     int     // HvFolder, HvAhead
	Lasting bool    // HvFolder, HvFolderFailed: as in HactFolder
}

// Request asks for a checkpoint. Requests that come before the ranks are captured share the running attempt.
// Later ones share the next.
type Request struct {
	ID        uint64 // chosen by the driver; comes back in HactDone
	Mode      uint64 // oob.ModeSelf, ModeNative or ModeAuto
	Stop      bool   // end the job after the commit; no rank computes any further
	Timeout   int64  // milliseconds until the answer in any case; a move: also for each waiting phase, and package joblife ends it; 0: the default, for each phase and for a release
	Spent     int64  // milliseconds of Timeout that are over
	Patient   bool   // it waits for a release without limit
	Codec     string
	Move      []int  // ranks that are to move, see move.go; empty: it asks for a snapshot
	Pointless string // why no Point will come; with ModeAuto whole processes are imaged then
}

// HeadEventType names a HeadEvent.
type HeadEventType uint8

// What can happen to the head.
const (
	HvMsg          HeadEventType = 1 + iota // a message of a rank (Dests may come summed, from an agent)
	HvRequest                               // a checkpoint is requested
	HvDied                                  // a rank is gone
	HvTimeout                               // a timer ran out
	HvFolder                                // answer to HactFolder
	HvFolderFailed                          // the same, Err why
	HvCommitted                             // HactCommit was done
	HvCommitFailed                          // the same, Err why
	HvAllUp                                 // all ranks are up: checkpoints may begin
	HvHold                                  // a user keeps checkpoints off; answered by HactHeld
	HvRelease                               // the user has released them
	HvPause                                 // the ranks are stopped: no deadline counts
	HvGoOn                                  // they go on
	HvNative                                // whether whole processes can be imaged is known by now: Err why not
	HvMoveFailed                            // the ranks that move cannot be restored elsewhere: Err why
	HvAhead                                 // answer to HactAhead, Seq as there: the images are where the ranks go, or Err why not
)

// HeadAction is one output of the Head machine.
type HeadAction struct {
	Type   HeadActionType
	Msg    oob.Msg         // HactSend (To set)
	Timer  uint64          // HactTimer, HactStopTimer
	Millis int64           // HactTimer
	Done   Done            // HactDone; HactMoved: ID, Base and Notes; HactHeld: ID, and Err if it was released before
	Holder Holder          // HactHeld
	Images []oob.ImageInfo // HactCommit, HactMoved, HactAhead: by rank
	Seq    int             // HactCommit, HactDiscard, HactMoved, HactAhead: as in HvFolder
	Mode   uint64          // HactCommit: the kind of images, oob.ModeSelf or ModeNative
	Info   ProgressInfo    // HactProgress

	Lasting bool // HactFolder: images for it are to outlive the job, or are no snapshot's (HeadConfig.Apart)
}

// Done is the outcome of one request.
type Done struct {
	ID   uint64
	Seq  int    // the committed sequence number, if Err is ""
	Err  string // names the rank and the event that was awaited
	Stop bool   // the job is to be ended now

	Mode  uint64        // the kind of images, made or tried: oob.ModeSelf or ModeNative
	Pause time.Duration // native: the longest time that a rank stood still to be imaged
	Base  int           // native: the snapshot that images of this one build on, or the images that went ahead; 0: all are full
	Notes []string      // remarks for the user on a snapshot that was committed
}

// ProgressInfo is what a user waiting for a checkpoint is shown.
type ProgressInfo struct {
	Phase   string // "held", "points", "ahead", "closing", "draining", "capturing", "writing", "committing", "moving"
	Ranks   int    // ranks that have finished the phase
	Size    int
	Written uint64 // bytes written so far
	Total   uint64 // bytes the images will hold, once known
}

// HeadActionType names a HeadAction.
type HeadActionType uint8

// The actions of the head's driver.
const (
	HactSend      HeadActionType = 1 + iota // send Msg
	HactTimer                               // start timer Timer with Millis; time in which the job itself is imaged does not count
	HactStopTimer                           // stop it
	HactFolder                              // begin a snapshot folder; answer HvFolder or HvFolderFailed
	HactCommit                              // write the schema, rename, fsync; answer HvCommitted or HvCommitFailed
	HactDiscard                             // remove the folder of an attempt that failed
	HactDone                                // a request is answered
	HactHeld                                // no checkpoint falls from now on, until HvRelease
	HactProgress                            // tell the waiting clients
	HactFinalized                           // all ranks were released from Finalize
	HactAhead                               // bring Images to the nodes where ranks move; answer HvAhead
	HactMoved                               // all stand, and the images of those that move are written; HvMoveFailed or Successor follows
)
