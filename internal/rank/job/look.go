package job

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// The head asks a rank what it waits for when there is trouble. The driver may be stuck, the gate
// closed, or the engine's lock held for good. So the reader answers, in a goroutine for each
// question. It waits for the engine no longer than lookWithin.
const lookWithin = 200 * time.Millisecond

// look answers a question.
func (d *driver) look(m *oob.Msg) {
	in := &waitreport.Info{}
	switch {
	case m.A == oob.LookStacks:
		in.Stacks = string(waitreport.Dump())
	case m.A == oob.LookTrim && len(m.Data) == 1:
		d.j.trim(uint64(m.Data[0]))
	case m.A == oob.LookStill && len(m.Data) == 8:
		in = d.j.still(time.Duration(binary.LittleEndian.Uint64(m.Data)))
	default:
		dump := waitreport.Dump()
		if in = d.j.Doing(waitreport.Calls(dump)); in.State == waitreport.Computing {
			in.State = waitreport.Standing(dump)
		}
	}
	answer := oob.Msg{Kind: oob.Seen, A: m.A, B: m.B}
	var err error
	if answer.Data, err = json.Marshal(in); err == nil {
		err = d.j.send(answer)
	}
	if err != nil {
		d.j.lost(fmt.Errorf("rank %d: lost the launcher: %w", d.j.Rank, err))
	}
}

// Doing tells what a rank does whose goroutines are in these calls.
func (j *Job) Doing(calls []waitreport.Call) *waitreport.Info {
	in := &waitreport.Info{}
	waits := j.waits()
	in.Waits = waitreport.Join(calls, waits)
	switch n := j.points.standing(); {
	case n > 0:
		in.State = fmt.Sprintf("standing at Point %d", n)
	case j.finalizing.Load():
		in.State = "in Finalize"
	case j.Engine.GateClosed():
		in.State = "held by a checkpoint"
	case waitreport.Attended() != "":
		in.State, in.Waits = waitreport.Attended(), nil
	case waits == nil:
		in.State = "its engine is busy, so that it is not known what its calls wait for"
	case len(in.Waits) == 0:
		in.State = waitreport.Computing
	}
	return in
}

// still reports whether the rank has only waited in calls of the library for so long. Only if its
// engine says so it looks at the goroutines, so a rank that goes on pays next to nothing.
func (j *Job) still(since time.Duration) *waitreport.Info {
	moving := &waitreport.Info{}
	if j.points.standing() > 0 || waitreport.Attended() != "" {
		return moving
	}
	ended := j.finalizing.Load()
	waits := j.waits()
	if waits == nil || len(waits) == 0 && !ended {
		return moving
	}
	for _, w := range waits {
		if w.For < since && !w.Free { // a Free wait is reported as such
			return moving
		}
	}
	dump := waitreport.Dump()
	calls := waitreport.Calls(dump)
	blocked := 0
	for _, c := range calls {
		switch {
		case c.Site == "": // the library's own
		case c.Blocking():
			blocked++
		case ended && c.Name == "mpi.Finalize", ended && c.Name == "mpi.Run":
		default:
			return moving
		}
	}
	if blocked > len(waits) || waitreport.Active(dump) > 0 {
		return moving
	}
	return &waitreport.Info{Still: true, Ended: ended, Waits: waitreport.Join(calls, waits)}
}

// waits asks the engine. It returns nil if the engine does not answer.
func (j *Job) waits() []waitreport.Wait {
	if j.Engine.GateClosed() {
		return nil
	}
	if j.looking.Swap(true) {
		return nil // an earlier question is still waiting for the lock
	}
	found := make(chan []waitreport.Wait, 1)
	go func() {
		all := []waitreport.Wait{}
		for _, w := range j.Engine.Waits() {
			one := waitreport.Waiting(w.Kind, w.What, w.For)
			one.Needs, one.Any, one.Free = w.Ends.Ranks, w.Ends.Any, w.Ends.Free
			all = append(all, one)
		}
		j.looking.Store(false)
		found <- all
	}()
	limit := time.NewTimer(lookWithin)
	defer limit.Stop()
	select {
	case all := <-found:
		return all
	case <-limit.C:
		return nil
	}
}
