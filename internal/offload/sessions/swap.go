package sessions

// swap is where a user's wish for a process has come.
type swap uint8

const (
	in      swap = iota // there is none
	leaving             // it is paused, and captured
	out                 // there is no process
	coming              // there is one again
)

// swapped takes an event that concerns a swap. It reports false for all others.
func (r *Rank) swapped(e Event, p *process) bool {
	switch e.Type {
	case EvSwapOut, EvSwapIn:
		if why := r.unable(e.Type, p); why != "" {
			r.refuse(e.ID, why)
		} else if e.Type == EvSwapOut {
			p.swap, p.state = leaving, Pausing
			r.act(ActPause, p.id)
		} else if r.phase != open {
			r.held = append(r.held, e)
		} else {
			p.swap, p.state = coming, Starting
			r.act(ActReturn, p.id)
		}
		return true
	case EvGiveUp:
		if p != nil && p.swap == leaving && p.state == Pausing {
			r.stays(p, e.Err)
		}
		return true
	}
	if p == nil || p.swap == in || e.Type == EvAsk {
		return false
	}
	if p.swap == coming {
		r.comes(e, p)
	} else {
		r.leaves(e, p)
	}
	return true
}

// unable says why a process cannot be swapped, or "".
func (r *Rank) unable(t EventType, p *process) string {
	switch {
	case p == nil:
		return "there is no such process any more"
	case p.ending:
		return "the program has closed it"
	case t == EvSwapIn && p.swap != out:
		return "it is not swapped out"
	case t == EvSwapIn:
		return ""
	case r.phase != open:
		return "a checkpoint is under way: try again when it has ended"
	case p.swap == out:
		return "it is swapped out already"
	case p.theirs:
		return "the program has it paused, or swapped out itself"
	case p.swap != in || p.state != Running:
		return "it is " + p.state.String() + ": try again"
	}
	return ""
}

func (r *Rank) refuse(id uint64, why string) {
	r.out = append(r.out, Action{Type: ActRefuse, ID: id, Err: why})
}

// leaves goes on with a process that is to be swapped out.
func (r *Rank) leaves(e Event, p *process) {
	switch {
	case e.Type == EvDied && p.state == Captured:
		p.swap, p.state = out, Paused
		r.act(ActSwapped, p.id)
		r.look()
	case e.Type == EvDied:
		if p.swap == leaving {
			r.refuse(p.id, e.Err)
		}
		p.swap = in
		r.died(e, p)
	case e.Type == EvPaused && p.state == Pausing && e.Err != "":
		p.swap, p.state = in, Running
		r.refuse(p.id, e.Err)
		r.pause(p)
		r.release()
	case e.Type == EvPaused && p.state == Pausing:
		p.state = Paused
		r.act(ActSkip, p.id)
	case e.Type == EvSkips && p.state == Paused:
		p.state = Capturing
		r.act(ActLeave, p.id)
	case e.Type == EvCaptured && p.state == Capturing && e.Err != "":
		r.stays(p, e.Err)
	case e.Type == EvCaptured && p.state == Capturing:
		p.state = Captured
	}
}

// stays lets a process go on that was to be swapped out.
func (r *Rank) stays(p *process, why string) {
	p.swap, p.state = in, Resuming
	r.act(ActRevert, p.id)
	r.refuse(p.id, why)
	r.release()
}

// comes goes on with a process that is swapped in. One that cannot be had leaves all as it was: another device may be tried.
func (r *Rank) comes(e Event, p *process) {
	switch {
	case e.Type == EvDied && e.Due && p.state == Starting:
		p.swap, p.state = out, Paused
		r.refuse(p.id, e.Err)
		r.look()
	case e.Type == EvDied:
		r.refuse(p.id, e.Err)
		p.swap = in
		r.died(e, p)
	case e.Type == EvStarted:
		p.state = Resuming
		r.act(ActResume, p.id)
	case e.Type == EvResumed && e.Err != "":
		r.act(ActEnd, p.id)
	case e.Type == EvResumed:
		p.swap, p.state = in, Running
		r.act(ActSwapped, p.id)
		r.pause(p)
		r.release()
	}
}
