package devices

// Mutant is a way to break a rule, at the place that it names in a driver. A is a rule of the agent (internal/offload/sessions), P one of the
// process (internal/offload/phase), J one of the job: the head, or what a restored rank does.
type Mutant int

const (
	None              Mutant = iota
	silence                  // A1: a process that has not answered for long is taken for dead
	readyEarly               // A2: Ready is said before the processes are paused
	readyOfAnother           // A2: the Ready of an attempt that is over is taken for this one's
	wishLost                 // A3: what the program asks for meanwhile is forgotten
	followHeld               // A3: what belongs to a pause of the program's own is held
	stale                    // A4: what is valid at the host is asked before all are paused
	resumedEarly             // A5: what is captured is resumed before all are
	deathIgnored             // A6: an attempt goes on without a process that has died
	deathUntold              // A6: the rank does not hear of it
	letGoAlone               // A7: a process goes on when it has what the image holds
	swapTold                 // A8: the rank is told that a process has ended which a user has swapped out
	staleSwap                // A8: for that, what is valid at the host is asked before the process is paused
	outForgotten             // A9: what is swapped out is not in the snapshot
	comesMeanwhile           // A9: what is swapped out comes in during an attempt
	lossForgotten            // A10: a rank is imaged with a device that it has lost, and not closed
	takesMeanwhile           // P1: commands are taken while the process is paused
	lateRun                  // P1: a command is taken after the process has said that it is paused
	idleEarly                // P2: the process is paused before what it has taken is done
	headIgnored              // P3: a capture of another instant is restored
	toldEarly                // P4: a capture counts before it is written
	answersOfAnother         // P5: what answers an older order is taken for the answer to this one
	refusedUnanswered        // P6: an order that does not fit is not answered
	lateUnnamed              // P7: a process does not say what it waits for
	opensAlone               // J: a rank's gate opens before all are captured
	wishesForgotten          // J: a restored rank does not repeat what nobody has answered
	mutants
)

var mutantNames = [...]string{"none", "silence", "ready early", "ready of another", "wish lost", "follow held", "stale", "resumed early", "death ignored", "death untold", "let go alone",
	"swap told", "stale swap", "out forgotten", "comes meanwhile", "loss forgotten", "takes meanwhile", "late run", "idle early", "head ignored", "told early", "answers of another", "refused unanswered", "late unnamed", "opens alone", "wishes forgotten"}

func (m Mutant) String() string { return mutantNames[m] }
