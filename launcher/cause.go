package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// verdict is why an incarnation ends, and with which exit status.
type verdict struct {
	code int
	text string // one line for the user; "" says nothing
	died bool   // a rank or agent was lost: -restarts applies
	rank int    // the rank that is the cause, -1 if it is none
}

// causes finds the first cause among what comes in when a job breaks, from
// several agents in no certain order. A death by signal or a lost agent is the
// consequence of nothing inside the job. A rank in MPI that exits with an error
// may have met another one's death. A rank that says so (secondary) has.
type causes struct {
	found [3]*verdict // the first of each kind
	said  map[int]saying
}

// kind is how sure it is that something is a first cause.
type kind uint8

const (
	certain kind = iota
	likely
	consequence
)

// saying is what a rank said about its end before it came.
type saying struct {
	code      int
	text      string
	secondary bool
	abort     bool
}

// phase is how far a rank has come.
type phase uint8

const (
	phaseNone    phase = iota
	phaseSpawned       // the process runs
	phaseGreeted       // it called Init
	phaseAddress       // its addresses are known
	phaseUp            // Init returned
	phaseFinal         // it was released from Finalize
	phaseExited
)

func (p phase) String() string {
	return [...]string{"not started", "started", "in Init", "in Init", "running", "finalized", "exited"}[p]
}

// set records a cause unless there is an earlier one of its kind.
func (c *causes) set(k kind, v verdict) {
	if c.found[k] == nil {
		c.found[k] = &v
	}
}

func (c *causes) say(rank int, s saying) {
	if c.said == nil {
		c.said = map[int]saying{}
	}
	if _, twice := c.said[rank]; !twice {
		c.said[rank] = s
	}
}

// aborted takes a rank's AbortJob. If the rank has met another one's death before, that
// is what it is about, whatever the program has made of the error.
func (c *causes) aborted(rank, code int, secondary bool, text string) {
	secondary = secondary || c.said[rank].secondary
	c.say(rank, saying{code, text, secondary, true})
	v := verdict{code: exitCode(code), rank: rank, text: fmt.Sprintf("rank %d aborted the job with code %d%s", rank, code, colon(text))}
	k := certain
	if secondary {
		k, v.text, v.died = consequence, fmt.Sprintf("rank %d gave up%s", rank, colon(text)), true
	}
	c.set(k, v)
}

// failing takes a rank's Failure: its end will follow.
func (c *causes) failing(rank int, secondary bool, text string) {
	c.say(rank, saying{text: text, secondary: secondary})
}

// exited takes a rank's end; where is how far it had come, others tells that
// other ranks are in MPI. It reports whether the rank failed.
func (c *causes) exited(rank int, status syscall.WaitStatus, where phase, others bool) bool {
	s := c.said[rank]
	if s.abort {
		return true // recorded when it said so
	}
	v, k := verdict{rank: rank, died: true, code: statusCode(status)}, certain
	switch {
	case status.Signaled():
		v.text = fmt.Sprintf("rank %d was killed by signal %d (%s)%s", rank, int(status.Signal()), signalName(status.Signal()), core(status))
	case status.ExitStatus() != 0:
		v.text = fmt.Sprintf("rank %d exited with status %d", rank, status.ExitStatus())
		if where >= phaseUp && where < phaseFinal {
			k = likely
		}
	case where >= phaseGreeted && where < phaseFinal:
		v.code = ExitFailed
		v.text = fmt.Sprintf("rank %d exited with status 0 without calling Finalize", rank)
	case where < phaseGreeted && others:
		v.code = ExitFailed
		v.text = fmt.Sprintf("rank %d ended without calling Init, which other ranks have called: every rank must, or none", rank)
	default:
		return false
	}
	v.text += colon(s.text)
	if s.secondary {
		k = consequence
	}
	c.set(k, v)
	return true
}

// verdict is the surest cause known, nil if there is none, and how long a surer
// one may take to turn up.
func (c *causes) verdict() (*verdict, time.Duration) {
	wait := [...]time.Duration{certain: 0, likely: likelyGrace, consequence: consequenceGrace}
	for k, v := range c.found {
		if v != nil {
			return v, wait[k]
		}
	}
	return nil, 0
}

// How long a consequence waits for its cause. Deaths are reported by the kernel
// to agents at once; only frames from one agent may be slower than another's.
const (
	likelyGrace      = 200 * time.Millisecond
	consequenceGrace = time.Second
)

// statusCode turns a wait status into an exit status as a shell does.
func statusCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return exitSignalBase + int(s.Signal())
	}
	return s.ExitStatus()
}

// exitCode keeps what can be passed on of an Abort's code: a code that is not
// zero never becomes zero.
func exitCode(code int) int {
	if code != 0 && code&0xff == 0 {
		return ExitFailed
	}
	return code & 0xff
}

func core(s syscall.WaitStatus) string {
	if s.CoreDump() {
		return ", core dumped"
	}
	return ""
}

func colon(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return ": " + strings.ReplaceAll(text, "\n", "; ")
}

func signalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}
