package joblife

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Verdict tells why a life or the job ends, and with which exit status.
type Verdict struct {
	Code int
	Text string // one line for the user; "" says nothing
	Died bool   // a rank or agent was lost: the job may begin again; see Deaths in package job
	Rank int    // the rank that is the cause; -1: no rank is
	Last int    // the snapshot with which the job was checkpointed and stopped; 0: it was not
}

// causes finds the first cause when a job breaks. Reports come from several agents in no certain order. A death
// by signal or a lost agent never follows from something inside the job. A rank in MPI that exits with an error
// may have met another rank's death. A rank that says so (secondary) has.
type causes struct {
	found [3]*Verdict // the first of each kind
	said  map[int]saying

	likely, consequence int64 // milliseconds that each waits for a surer one
}

// kind tells how certainly something is a first cause.
type kind uint8

const (
	certain kind = iota
	likely
	consequence
)

// saying is what a rank said about its end in advance.
type saying struct {
	code      int
	text      string
	secondary bool
	abort     bool
}

// set records a cause unless there is an earlier one of its kind.
func (c *causes) set(k kind, v Verdict) {
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

// aborted takes a rank's AbortJob. If the rank has already met another rank's death, that is the
// reason, even if the program reports another error. The rank itself has printed its message.
func (c *causes) aborted(rank, code int, why uint64, text string) {
	if c.said[rank].secondary {
		why = oob.AbortFollows
	}
	c.say(rank, saying{code: code, secondary: why == oob.AbortFollows, abort: true})
	v, k := Verdict{Code: exitCode(code), Rank: rank}, certain
	switch why {
	case oob.AbortFollows:
		k, v.Text, v.Died = consequence, fmt.Sprintf("rank %d gave up, as another rank was lost", rank), true
	case oob.AbortPanic:
		v.Text, v.Died = fmt.Sprintf("rank %d panicked", rank), true
	case oob.AbortLost:
		first, _, _ := strings.Cut(text, "\n\n") // stacks follow
		v.Text, v.Died = fmt.Sprintf("rank %d cannot go on%s", rank, colon(first)), true
	default:
		v.Text = fmt.Sprintf("rank %d aborted the job with code %d", rank, code)
	}
	c.set(k, v)
}

// failing takes a rank's Failure. The rank's end will follow. A rank that has lost a peer and stands still
// until the restart is an exception: nothing more comes from it.
func (c *causes) failing(rank int, secondary, stands bool, text string) {
	c.say(rank, saying{text: text, secondary: secondary})
	if secondary && stands {
		c.set(consequence, Verdict{Code: Failed, Rank: rank, Died: true, Text: fmt.Sprintf("rank %d has lost another rank%s", rank, colon(text))})
	}
}

// exited takes a rank's end. where says how far the rank had come, and others whether other ranks
// are in MPI. It reports whether the rank failed.
func (c *causes) exited(rank int, status syscall.WaitStatus, where Phase, others bool) bool {
	s := c.said[rank]
	if s.abort {
		return true // recorded when the rank announced it
	}
	v, k := Verdict{Rank: rank, Died: true, Code: statusCode(status)}, certain
	switch {
	case status.Signaled():
		v.Text = fmt.Sprintf("rank %d was killed by signal %d (%s)%s", rank, int(status.Signal()), SignalName(status.Signal()), core(status))
	case status.ExitStatus() != 0:
		v.Text = fmt.Sprintf("rank %d exited with status %d", rank, status.ExitStatus())
		if where >= Up && where < Final {
			k = likely
		}
	case where >= Greeted && where < Final:
		v.Code = Failed
		v.Text = fmt.Sprintf("rank %d exited with status 0 without calling Finalize", rank)
	case where < Greeted && others:
		v.Code = Failed
		v.Text = fmt.Sprintf("rank %d ended without calling Init, which other ranks have called: every rank must, or none", rank)
	default:
		return false
	}
	v.Text += colon(s.text)
	if s.secondary {
		k = consequence
	}
	c.set(k, v)
	return true
}

// verdict returns the surest cause known, or nil. It also returns for how many milliseconds a surer one may
// still arrive. The kernel reports deaths to agents at once. Only the frames of one agent may be slower than
// another's.
func (c *causes) verdict() (*Verdict, int64) {
	wait := [...]int64{certain: 0, likely: c.likely, consequence: c.consequence}
	for k, v := range c.found {
		if v != nil {
			return v, wait[k]
		}
	}
	return nil, 0
}

// statusCode turns a wait status into an exit status as a shell does.
func statusCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return SignalBase + int(s.Signal())
	}
	return s.ExitStatus()
}

// exitCode returns the exit status for an Abort's code. A code that is not zero never becomes zero.
func exitCode(code int) int {
	if code != 0 && code&0xff == 0 {
		return Failed
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

// SignalName returns the name of a signal, such as SIGTERM.
func SignalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}
