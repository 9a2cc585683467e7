package head

import (
	"encoding/json"
	"errors"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// The head knows how much of standard input each snapshot has seen, and which part of it a life
// that begins with the snapshot gets.

// inputAt is where a snapshot stands in the standard input of this process.
type inputAt struct {
	script stdio.Script // what a life that begins with it gets; nil: that is not known
	why    error        // then why

	taken   stdio.Script // native: what its program has taken since it ran from the top
	header  stdio.Script // the part of it taken before its first Point
	told    bool         // the header is known
	strange bool         // the program ran from the top under another gorun, with another input
}

// beginning is the position of a job that begins here: from a snapshot of another gorun, or from
// the start.
func beginning(from *snapshot.Snapshot) inputAt {
	return inputAt{script: stdio.WholeInput(), strange: from != nil && from.Schema.Backend != wire.BackendSelf && from.Schema.Input > 0}
}

// feed gives an incarnation its input
func (inc *incarnation) feed() {
	h := inc.h
	if h.stdin == nil {
		return
	}
	inc.input = beginning(nil)
	if m, known := h.markOf(inc.from); known {
		inc.input = m.input
	}
	l := inc.linkOf(0)
	inc.attach(l, inc.input.script)
	h.keepInput()
	h.startStdin()
}

// attach gives standard input to rank 0's agent. From then on only credits of that agent count.
func (inc *incarnation) attach(l *link, script stdio.Script) {
	inc.fed = l
	inc.h.stdin.Attach(script, func(p []byte) { l.out.Send(oob.Msg{Kind: oob.Input, From: oob.Head, To: 0, Data: p}) })
}

// tookInput notes how much rank 0 had taken when it was captured.
func (inc *incarnation) tookInput(m *oob.Msg) {
	inc.took = nil
	var s oob.InputState
	if len(m.Data) > 0 && json.Unmarshal(m.Data, &s) == nil && s.Taken >= 0 {
		inc.took = &s
	}
}

// usedInput notes how much rank 0 had taken when it ended.
func (inc *incarnation) usedInput(m *oob.Msg) {
	var s oob.InputState
	if len(m.Data) > 0 && json.Unmarshal(m.Data, &s) == nil && s.Taken >= 0 {
		inc.used = &s
	}
}

// inputNow is where a snapshot of the ranks stands, as they were captured.
func (inc *incarnation) inputNow(mode uint64) inputAt {
	if inc.h.stdin == nil {
		return beginning(nil)
	}
	if inc.took == nil {
		return inputAt{why: errors.New("it is not known how much of standard input rank 0 had read")}
	}
	s, began := inc.took, inc.input
	taken, left := began.script.First(s.Taken), began.script.After(s.Taken)
	header, told := began.script.First(max(0, s.First)), s.First >= 0
	strange := false
	if inc.wholeFrom() || inc.lived { // the process has lived before
		strange = began.strange
		if began.told {
			header, told = began.header, true
		} else {
			header = began.taken.Then(header)
		}
		taken = began.taken.Then(taken)
	}
	switch {
	case inc.h.opt.Mode() == oob.ModeNative: // the program will not run from the top
		return inputAt{script: left}
	case mode == oob.ModeNative:
		return inputAt{script: left, taken: taken, header: header, told: told, strange: strange}
	case strange:
		return inputAt{why: errors.New("its program runs from the top and reads standard input again, which was another gorun's")}
	case !told && len(taken) > 0:
		return inputAt{why: errors.New("its program runs from the top and reads standard input again, and was built with a gorun that does not tell how much")}
	}
	return inputAt{script: header.Then(left)}
}

// inputRead is how much of standard input had been read up to an image of rank 0, under
// this gorun and those before.
func (inc *incarnation) inputRead() (n int64) {
	if from := inc.h.opt.From; from != nil {
		n = from.Schema.Input
	}
	n += inc.readBefore
	if inc.took != nil {
		n += inc.took.Taken
	}
	return n
}

// keepInput has the input kept that a restart may need.
func (h *head) keepInput() {
	if h.stdin == nil {
		return
	}
	off := int64(0)
	if len(h.kept) > 0 || !h.job.RestartsLeft() {
		off = stdio.Rest
	}
	for _, k := range h.kept {
		if m := k.Note.(mark); h.job.RestartsLeft() {
			off = min(off, m.input.script.Begins(), m.input.taken.Begins())
		}
	}
	h.stdin.KeepFrom(off)
}

// leaveInput sets the offset of standard input, if it is a file, for the process that reads it
// next. The offset is behind what the snapshot has seen with which the job was stopped, or else
// behind what rank 0 has taken. So a shell's loop that reads the file line by line loses nothing to
// a program that does not read.
func (h *head) leaveInput() {
	newest, _ := h.markOf(h.newest())
	switch {
	case h.stdin == nil:
	case h.result.Code == *h.opt.CkptExit && newest.input.script != nil:
		at := newest.input.script
		h.stdin.Leave(at[len(at)-1].From)
	case h.inc != nil && h.inc.used != nil && h.inc.input.script != nil:
		at := h.inc.input.script.After(h.inc.used.Taken)
		h.stdin.Leave(at[len(at)-1].From)
	default: // its agent was lost
		h.stdin.Leave(h.stdin.Fed())
	}
}

// canRead says why a restart from there cannot be given its input.
func (h *head) canRead(at *inputAt) error {
	switch {
	case at.script == nil:
		return at.why
	case h.stdin == nil:
		return nil
	}
	return h.stdin.Can(at.script)
}

// inputFailed tells the user that standard input cannot be kept or read.
func (h *head) inputFailed(err error) {
	h.post(func() { h.say("%v", err) })
}

// sayInput tells the user of a restart that what was read before is not read again.
func (h *head) sayInput() {
	if from := h.opt.From; from != nil && from.Schema.Input > 0 && h.stdin != nil {
		h.say("up to this snapshot rank 0 had read %d bytes of standard input; it goes on with what this gorun reads, from its first byte", from.Schema.Input)
	}
}
