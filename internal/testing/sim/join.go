package sim

import "slices"

// Machines that leave in order, and that join a job that runs. See packages keeper and fleet.
//
//	keeper: Leaving, ends its agents, Left        head: gives the machine up, and knows it fenced
//	a user: join          head: waits until it is fenced, then there is a keeper without a past
//
// What a keeper says is of its own connection. Here a frame may come twice, and so after the next keeper has begun.

// word is what a keeper says of its end, with the number of its connection.
type word struct {
	passing // value is the connection
	left    bool
}

// leaves is a signal to the keeper.
func (m *machine) leaves() {
	w := m.w
	if !m.moves() || m.holder == nil {
		return
	}
	w.logf("machine %d leaves", m.index)
	m.words = append(m.words, word{passing: m.passes(m.connection)})
	connection := m.connection
	w.repairs = append(w.repairs, task{w.now + 1 + w.rng.Int64N(200), func() {
		if m.moves() && m.connection == connection {
			m.end("has left")
			m.words = append(m.words, word{m.passes(connection), true})
		}
	}})
}

// hear is the head, to which keepers say that they leave.
func (m *machine) hear() {
	w := m.w
	if len(m.words) == 0 || m.words[0].at > w.now || w.head.waits > 0 {
		return
	}
	x := m.words[0]
	if w.rng.IntN(4) > 0 {
		m.words = m.words[1:]
	} else {
		m.words[0].at = w.now + 1 + w.rng.Int64N(2*terms.L.Milliseconds()) // once more
	}
	switch unasked := w.breaks(leftUnasked) && x.left; {
	case !m.up && x.value == m.connection, x.value != m.connection && !unasked: // lost, or of a connection that is over
	case !x.left:
		m.leaving = true
		m.granter.End(w.headNow())
		m.giveUp()
	case m.leaving || unasked:
		m.granter.End(w.headNow())
		m.giveUp()
		m.fence()
		w.seen.left++
	}
}

// rejoins is a user who orders the machine to join. It waits until the machine is fenced.
func (m *machine) rejoins() {
	w := m.w
	early := w.breaks(joinsUnfenced)
	switch {
	case w.head.waits > 0 || w.head.ended || !m.given || m.off || m.frozen || !m.up || !m.down:
		return
	case !m.fenced && !early:
		w.repairs = append(w.repairs, task{w.now + 100, m.rejoins})
		return
	case m.holder != nil && !m.ended && !early:
		w.violate("machine %d joins, and is not over", m.index)
	}
	w.logf("machine %d joins", m.index)
	w.seen.rejoined++
	if early {
		m.fence()
	}
	m.begin()
}

// begin starts a keeper, which has no past.
func (m *machine) begin() {
	m.holder, m.granter = newLease()
	m.given, m.fenced, m.ended, m.out, m.leaving, m.ending = false, false, false, false, false, 0
	m.asks, m.grants = nil, nil
	m.connection++
	a := m.holder.Ask(m.now())
	m.granter.Renew(a, m.w.headNow())
	m.holder.Granted(a, m.now())
}

// giveUp is the head's word that a machine is lost.
func (m *machine) giveUp() {
	w := m.w
	if m.given {
		return
	}
	m.given, m.fencedAt = true, m.granter.FencedAt()
	w.head.cut = true
	w.logf("head: machine %d is lost", m.index)
	w.seen.lostMachines++
	for _, n := range w.head.nodes {
		if n.m == m && !n.ended {
			n.end()
		}
	}
}

// fence is the head's word that nothing of it can act.
func (m *machine) fence() {
	w := m.w
	if m.fenced {
		return
	}
	m.fenced = true
	w.logf("head: machine %d is fenced", m.index)
	for _, n := range slices.Concat(w.head.lives...) {
		if n.m == m {
			n.goes()
		}
	}
}
