package sim

// Mutant is a way to break one rule of the protocol. Each is a few lines at the
// place that it names, in the simulator's drivers, its transport or its
// out-of-band network; engine and machines are the shipped ones. That every
// mutant is caught shows that the invariants see such a mistake.
type Mutant int

// The rules are those of docs/design.md; S is the part that comes before them
// with the portable back-end, N what is special to images of whole processes.
const (
	None                 Mutant = iota
	gateNotTaken                // 1: the driver says that the gate is closed; it is open
	gateWindow                  // 1: a caller looks at the gate first and gets in later
	quietWithHandshake          // 1: the transport is quiet with handshakes in progress
	deafBeforeDraining          // 2: nothing is received before draining
	framesWhileClosed           // 2: frames that wait are offered while the gate is closed
	flushSkipped                // 3: bookmarks are sent with accepted frames still in queues
	countsOnLeaving             // 3: sent counts what has left, not what was accepted
	attemptIgnored              // 4: messages of another attempt are taken for this one's
	incarnationIgnored          // 4: messages of another incarnation are taken for this one's
	bookmarkGuessed             // 4: a bookmark is not waited for, what was received stands for it
	reductionLosesOne           // 4: the sparse reduction forgets a sender
	drainCutShort               // 5: a rank is drained when the bookmarks are there
	repliesWhileDraining        // 5: replies that draining causes go out, counted
	quietWithPut                // 5: the transport is quiet with a direct write under way
	readsInFlight               // 5: the transport says that a direct read is done when it is under way
	slotsStay                   // 6: unread slots are not turned into private memory
	captureBeforeReady          // 7: images are made when the first rank is ready
	opensBeforeOthers           // 7: a rank's gate opens when its own image is made
	commitBeforeWritten         // 7: the commit does not wait for all images
	secondAttempt               // 7: the next attempt begins while images are being written
	socketsBeforeGate           // 8: a lost connection is a failure although the gate is closed
	deadlinesRunOn              // 8: deadlines count the time in which the job is imaged
	finalizeNotHeld             // 9: Finalize returns at once
	finalizeInAttempt           // 9: Finalize is released although a checkpoint runs
	initNotHeld                 // 9: a checkpoint begins before all are up
	lateRequestTaken            // 9: a request is taken after Finalize
	armedLater                  // S: the count is read, the stop ordered later
	targetTooLow                // S: all are to stop at the largest count, not one later
	pendingNotSeen              // S: a pending request at a Point is not an error
	savedForgotten              // S: saved messages are not given back at the first Point
	pointsStayArmed             // N: the order to stop at a Point outlives the closed gate
	failureRemembered           // N: an attempt that has fallen back fails for what had made it
	baseNotCommitted            // N: an image builds on one of an attempt that has failed
	finalizeNotRepeated         // N: a rank that comes back in Finalize does not say so again
	revertForgets               // failed attempts: one rank is not told
	discardsCommitted           // failed attempts: the folder removed is that of the last snapshot
	mutants
)

var mutantNames = [...]string{
	"none", "gate not taken", "gate window", "quiet with handshake", "deaf before draining",
	"frames while closed", "flush skipped", "counts on leaving", "attempt ignored", "incarnation ignored",
	"bookmark guessed", "reduction loses one", "drain cut short", "replies while draining", "quiet with put", "reads in flight",
	"slots stay", "capture before ready", "opens before others", "commit before written", "second attempt",
	"sockets before gate", "deadlines run on", "finalize not held", "finalize in attempt", "init not held",
	"late request taken", "armed later", "target too low", "pending not seen", "saved forgotten",
	"points stay armed", "failure remembered", "base not committed", "finalize not repeated",
	"revert forgets", "discards committed",
}

func (m Mutant) String() string { return mutantNames[m] }

func (w *world) breaks(m Mutant) bool { return w.mutant == m }
