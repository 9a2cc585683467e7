package joblife

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// early is a request that came before all ranks were up.
type early struct {
	ckpt.Request
	timer uint64
}

// upMillis is how long a request waits by default for all ranks to be up.
const upMillis = 60_000

// request passes a request on to the checkpoint machine.
func (j *Job) request(r ckpt.Request) {
	l := j.life
	switch {
	case l == nil || l.ending != nil || l.closing || j.verdict != nil:
		j.refuse(r.ID, "the job is ending")
	case l.count[Up] < len(l.ranks):
		wait := r.Timeout
		if wait == 0 {
			wait = upMillis
		}
		l.early = append(l.early, early{r, l.after(wait, func() { l.tooEarly(r.ID) })})
	default:
		l.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: r})
	}
}

func (j *Job) refuse(id uint64, why string) {
	j.act(Action{Type: ActCkpt, Life: len(j.lives), Ckpt: ckpt.HeadAction{Type: ckpt.HactDone, Done: ckpt.Done{ID: id, Err: why}}})
}

// tooEarly gives up a request that came before all ranks were up, id, or all.
func (l *life) tooEarly(id uint64) {
	l.early = slices.DeleteFunc(l.early, func(e early) bool {
		if id != 0 && e.ID != id {
			return false
		}
		l.j.stop(e.timer)
		l.j.refuse(e.ID, "not all ranks are up: "+l.late())
		return true
	})
}

// late names the ranks that are not up.
func (l *life) late() string {
	var late []int
	for rank := range l.ranks {
		if p := l.ranks[rank].phase; p != Up && p != Final {
			late = append(late, rank)
		}
	}
	if len(late) == 0 {
		return "the job is ending"
	}
	return fmt.Sprintf("%s (rank %d: %v)", wireup.Ranks(late), late[0], l.ranks[late[0]].phase)
}

// allUp opens the way for checkpoints. It begins with those requested before.
func (l *life) allUp() {
	l.step(ckpt.HeadEvent{Type: ckpt.HvAllUp})
	early := l.early
	l.early = nil
	for _, e := range early {
		l.j.stop(e.timer)
		l.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: e.Request})
	}
}

// step feeds the checkpoint machine. It carries out the actions about frames and timers here, and passes the
// rest to the driver.
func (l *life) step(ev ckpt.HeadEvent) {
	if l.ckpt == nil {
		return
	}
	for _, a := range l.ckpt.Step(ev) {
		switch a.Type {
		case ckpt.HactSend:
			l.pass(a.Msg)
		case ckpt.HactTimer:
			l.clocks[a.Timer] = l.j.after(a.Millis, func() {
				delete(l.clocks, a.Timer)
				l.step(ckpt.HeadEvent{Type: ckpt.HvTimeout, Timer: a.Timer})
			})
		case ckpt.HactStopTimer:
			l.j.stop(l.clocks[a.Timer])
			delete(l.clocks, a.Timer)
		case ckpt.HactMoved:
			l.imaged(&a)
		case ckpt.HactHeld:
			l.held(&a)
		case ckpt.HactFinalized:
			for rank := range l.ranks {
				l.reach(rank, Final)
			}
		default:
			if a.Type == ckpt.HactAhead {
				l.goesAhead(&a)
			}
			if a.Type == ckpt.HactDone && slices.Contains(l.moved, a.Done.ID) {
				if l.move != nil && l.move.id == a.Done.ID { // else it is over, with the life
					l.moveIsOver(a.Done.Err)
				}
				continue
			}
			l.act(Action{Type: ActCkpt, Ckpt: a})
		}
		if a.Type == ckpt.HactDone && a.Done.Stop {
			l.j.last(a.Done.Seq)
		}
	}
}
