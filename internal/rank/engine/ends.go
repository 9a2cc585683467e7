package engine

// Ends says which ranks can end a wait. The search for ranks that wait for each other needs it.
type Ends struct {
	Ranks [][]int // any one of these sets of ranks of the world, all of its ranks together
	Any   bool    // or any rank at all
	Free  bool    // or no rank needs to: a deadline or the program ends it, or the missing message is on its way
}

// ends says who can end the wait of a caller.
func (e *Engine) ends(w *waiter) (n Ends) {
	switch {
	case w.view != nil:
		n.Free = true
	case w.r != nil:
		n.add(w.r)
	case w.team != nil:
		n.ranks(w.team.Awaited())
	case w.probe && w.src == AnySource:
		n.Any = true
	case w.probe:
		n.ranks(int(w.src))
	default: // WaitAny
		for _, r := range e.requests {
			if r.w == w {
				n.add(r)
			}
		}
	}
	return n
}

func (n *Ends) ranks(all ...int) { n.Ranks = append(n.Ranks, all) }

// add adds what can end an operation.
func (n *Ends) add(r *request) {
	switch r.phase {
	case phaseQueued, phaseAnnounced, phaseAck:
		n.ranks(int(r.peer))
	case phasePosted:
		if r.peer == AnySource {
			n.Any = true
		} else {
			n.ranks(int(r.peer))
		}
	case phaseComposed:
		n.addPlan(r.plan)
	default:
		n.Free = true
	}
}

// addPlan adds what can end the round of a plan: all its messages.
func (n *Ends) addPlan(p *Plan) {
	if p.err != nil || p.listed || p.pending == 0 {
		n.Free = true
		return
	}
	var all []int
	for i := range p.Rounds[p.at].Parts {
		m := &p.Rounds[p.at].Parts[i]
		var one Ends
		switch {
		case m.over:
			continue
		case m.r == nil: // the program has yet to begin it
			one.Free = true
		case m.r.phase == phaseDone:
			continue
		default:
			one.add(m.r)
		}
		if one.Free {
			continue // others may still be missing
		}
		if one.Any {
			n.Any = true
			return
		}
		all = append(all, one.Ranks[0]...)
	}
	if n.Free = n.Free || len(all) == 0; !n.Free {
		n.ranks(all...)
	}
}
