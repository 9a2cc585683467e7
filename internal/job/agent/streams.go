package agent

import (
	"errors"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// copyOutput reads one output stream of a rank to its end.
func (a *agent) copyOutput(r *rankProc, stream int) {
	o := r.outputs[stream]
	f := o.f
	defer r.out.Done()
	defer close(o.over)
	defer f.Close()
	a.awaitRunning(r)
	var lines stdio.Splitter
	if a.startOf(r.rank).Size > 1 { // a single rank's output cannot be interleaved
		lines.Keep = stdio.LongestLine
	}
	buf := make([]byte, stdio.OutputChunk)
	send := func(p []byte, more bool) {
		if len(p) > 0 && a.out.Take(len(p)+stdio.FrameCost) {
			m := oob.Msg{Kind: oob.Output, From: int32(r.rank), To: oob.Head, A: uint64(stream), Data: p}
			if more {
				m.B = oob.LineGoesOn
			}
			a.head.Send(m)
		}
	}
	emit := func(p []byte) {
		if lines.HasLong() {
			// While the head waits for the rest of a line, it gives no credit for other ranks'
			// output. So no other rank here prints meanwhile.
			a.printing.Lock()
			lines.Long(send)
			a.printing.Unlock()
		}
		a.printing.RLock()
		send(p, false)
		a.printing.RUnlock()
	}
	for {
		if a.order.Interactive {
			var t time.Time
			if len(lines.Buf) > 0 {
				t = time.Now().Add(stdio.PromptDelay)
			}
			f.SetReadDeadline(t)
		}
		if o.asked() {
			f.SetReadDeadline(time.Unix(1, 0))
		}
		n, err := o.read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.SetReadDeadline(time.Time{})
			if o.pending != nil && !o.empty() {
				n, err = o.read(buf)
			}
		}
		emit(lines.Feed(buf[:n]))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			emit(lines.Rest())
			o.answer()
		case err != nil:
			emit(lines.Rest())
			return
		}
	}
}

// input is the agent's side of an Input frame of the head.
func (a *agent) input(m *oob.Msg) {
	if a.in != nil {
		a.in.Put(m.Data)
	}
}

func (a *agent) ackInput(n int) {
	a.head.Send(oob.Msg{Kind: oob.Input, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: uint64(n)})
}

// askedForInput answers a rank that stands at its first Point.
func (a *agent) askedForInput(r *rankProc, m oob.Msg) {
	if r.in != nil {
		r.in.FirstPoint()
	}
	r.down.Send(oob.Msg{Kind: oob.Input, From: oob.AgentAddr(int(a.index)), To: int32(r.rank), Incarnation: m.Incarnation})
}
