package sim

// Mutant is a way to break one rule of the protocol. Each is a few lines at the
// place that it names, in the simulator's drivers, its transport or its
// out-of-band network; engine and machines are the shipped ones. That every
// mutant is caught shows that the invariants see such a mistake.
type Mutant int

// Numbers are rules of package ckpt. S is the part that comes before them with
// the portable back-end, N what is special to images of whole processes, C are
// those of cells and short cuts, T those of teams and of callers that sleep, L the rules
// of the job's life (package joblife), M those of machines and their leases (package
// lease), V those of ranks that move, H those of sections in which no checkpoint may fall,
// K those of snapshots in memory.
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
	halfAtGate                  // 6: a gate closes before a message begun in shared memory is whole
	halfAsWhole                 // C: a message is delivered when half of it is there
	partDropped                 // C: a message of which a part was shown is taken for delivered
	partAsWhole                 // C: a part is shown as the whole message, before its length is final
	shortBlind                  // C: the short cut takes whatever message is next
	shortTakenTwice             // C: what the short cut has taken is delivered as well
	shortTakenUncounted         // C: what the short cut takes is not counted
	shortSentUncounted          // C: nor what it sends
	openNotShut                 // C: messages are added to an open cell after another frame has followed
	openAtGate                  // C: a cell stays open when the gate closes
	alikeOneLost                // C: of several alike one more is taken for delivered than was
	alikeOneTwice               // C: one less
	boardNotSaved               // T: boards are not copied when the gate has closed
	boardSavedEarly             // T: they are copied before it closes
	turnAtGate                  // T: a caller goes on with its turn when the gate has closed and boards are copied
	boardStale                  // T: boards of before a restart are read after it
	toldRestored                // T: what was told of a turn before a restart is told again after it
	ringForgotten               // T: who sees the end of a turn does not always wake those who sleep
	askForgotten                // T: a member that waits for room on a board does not say so
	wakeLost                    // T: a caller that sleeps is not woken when its request is done
	linesUnnamed                // T: a line does not say of which team it is
	linesNotAwaited             // T: a rank is saved at a Point before its lines have left, which takes long
	apartUntold                 // T: a line does not say that its writer lacks sight of a board
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
	lifeIgnored                 // L: frames of a life that is over are taken for this one's
	reapedTooEarly              // L: an agent says of ranks that it is ending that they have ended
	goneTooEarly                // L: an agent whose stream has ended counts as gone while its ranks live
	commitNotAwaited            // L: a life is over although a commit is under way
	consequenceTaken            // L: what a rank says of another's death is taken for the cause
	causeNotAwaited             // L: a consequence does not wait for its cause
	secondVerdict               // L: two decide that the job is over
	letGoAlone                  // L: a restored rank goes on before all are restored
	leaseNotAwaited             // M: a machine that is lost counts as fenced at once
	frozenOutlives              // M: a frozen machine's lease does not end it; what it was doing, it does later
	takenTooSoon                // M: a head that takes another's place does not wait for that one's leases
	twoHeads                    // M: a head whose place was taken goes on granting
	oldAddress                  // M: a restored rank looks for the others where they were
	cutUnheard                  // M: the head does not hear of two machines that are cut from one another
	suspectsAtOnce              // M: a rank says at once that it has been cut from a peer for long
	joinsUnfenced               // M: a machine joins again before it is fenced
	leftUnasked                 // M: that a machine has left is believed of a keeper that has not said that it leaves
	leftOutUsed                 // M: a machine that was left out is used again
	openBeforeRunning           // V: a rank's gate opens when its own transport is open
	oldPlaces                   // V: a rank that has moved, or stays, looks for the others where they were
	switchIgnored               // V: frames of the incarnation before a switch are taken for this one's
	sourceResumed               // V: a process that is being replaced goes on
	backTooSoon                 // V: a move is reverted before the new processes have ended
	moverBlamed                 // V: the end of a replaced process is taken for that of the rank
	aheadUnread                 // V: images count as gone ahead although they are not where the ranks go
	holdNotAwaited              // H: a rank enters its section without the head's word
	holdNotRepeated             // H: a rank that comes back waiting for its section does not ask again
	toggledEarly                // K: a snapshot in memory counts, and the one before is given up, before all have what they are to have
	survivorStays               // K: a survivor goes on from where it stands
	joinerOther                 // K: a rank that has lost its machine takes a copy of whatever snapshot
	staleMirror                 // K: snapshots have one name, and what an earlier one, or job, has left is taken for a copy
	parityMixed                 // K: a shard is of images of two snapshots
	mutants
)

var mutantNames = [...]string{
	"none", "gate not taken", "gate window", "quiet with handshake", "deaf before draining",
	"frames while closed", "flush skipped", "counts on leaving", "attempt ignored", "incarnation ignored",
	"bookmark guessed", "reduction loses one", "drain cut short", "replies while draining", "quiet with put", "reads in flight",
	"slots stay", "half at gate", "half as whole", "part dropped", "part as whole", "short blind", "short taken twice",
	"short taken uncounted", "short sent uncounted",
	"open not shut", "open at gate", "alike one lost", "alike one twice",
	"board not saved", "board saved early", "turn at gate", "board stale",
	"told restored", "ring forgotten", "ask forgotten", "wake lost", "lines unnamed", "lines not awaited", "apart untold",
	"capture before ready", "opens before others", "commit before written", "second attempt",
	"sockets before gate", "deadlines run on", "finalize not held", "finalize in attempt", "init not held",
	"late request taken", "armed later", "target too low", "pending not seen", "saved forgotten",
	"points stay armed", "failure remembered", "base not committed", "finalize not repeated",
	"revert forgets", "discards committed",
	"life ignored", "reaped too early", "gone too early", "commit not awaited", "consequence taken", "cause not awaited",
	"second verdict", "let go alone",
	"lease not awaited", "frozen outlives", "taken too soon", "two heads", "old address", "cut unheard", "suspects at once", "joins unfenced", "left unasked", "left out used",
	"open before running", "old places", "switch ignored", "source resumed", "back too soon", "mover blamed", "ahead unread",
	"hold not awaited", "hold not repeated",
	"toggled early", "survivor stays", "joiner other", "stale mirror", "parity mixed",
}

func (m Mutant) String() string { return mutantNames[m] }

// spreads reports whether a mutant is one of machines. The others are looked for without
// machines, where schedules are shorter.
func (m Mutant) spreads() bool {
	return m >= leaseNotAwaited && m <= leftOutUsed || m.remembers()
}

// remembers reports whether a mutant is one of memory, alike. It is looked for where all snapshots go there.
func (m Mutant) remembers() bool { return m >= toggledEarly && m <= parityMixed }

// roams reports whether a mutant is one of moves, alike.
func (m Mutant) roams() bool { return m >= openBeforeRunning && m <= aheadUnread }

func (w *world) breaks(m Mutant) bool { return w.mutant == m }
