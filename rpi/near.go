package rpi

// Where ranks share CPUs who has posted its line lets others have the CPU, and is
// through with the turn when it is its turn to run again. The last one on its CPU
// need not: the others there have posted theirs, too, and can do nothing but wait for
// those on other CPUs, as itself. So it looks on for a while instead, is through with
// the turn at once, and posts its next line before it lets others have the CPU, who
// then are through with one turn and post the next. That is one change of process less
// on each CPU, of two where two ranks share it.
//
// Who shares a CPU is a guess (Home.Near). A wrong one costs the while, so
// who has looked on in vain does it less often.

// spins is how it went.
type spins struct {
	vain uint32 // how many turns are to pass from one time to the next
	skip uint32 // how many of them are left
}

const (
	looksOn  = 2000 // about 2 us
	mostVain = 63
	// mostNear is how many may share a CPU. Of very many changes of process one less is
	// little.
	mostNear = 15
)

// arrange puts the members in the order in which they are looked at: those who share
// this rank's CPU first, from the next one on, at last this rank.
func (t *Team) arrange() {
	n, home := len(t.members), t.e.home.Home
	var others []int
	for k := 1; k < n; k++ {
		if i := (t.me + k) % n; home == nil || home.Near(t.members[i]) {
			t.order = append(t.order, i)
		} else {
			others = append(others, i)
		}
	}
	if t.near = len(t.order); t.near > mostNear {
		t.near = n - 1
	}
	t.order = append(append(t.order, others...), t.me)
}

// waitedFor returns the place of the member that the turn waits for as number k.
func (t *Team) waitedFor(k int) int {
	p := &t.now
	if !p.near {
		if k += p.first; k >= len(t.seats) {
			k -= len(t.seats)
		}
		return k
	}
	if k < t.near {
		if k += p.first; k >= t.near {
			k -= t.near
		}
	}
	return t.order[k]
}

// comesLate notes that the line of number k is not there: its is the first to be looked
// at in the next turn.
func (t *Team) comesLate(k int) {
	if p := &t.now; p.near && k < t.near {
		if t.late = k + p.first; t.late >= t.near {
			t.late -= t.near
		}
	}
}

// lookOn looks on for the lines of members on other CPUs, if those of all on this one
// are there. It reports whether the turn is over.
func (t *Team) lookOn() bool {
	p := &t.now
	if !p.near || !p.posted || p.next < t.near {
		return false
	}
	if t.spins.skip > 0 {
		t.spins.skip--
		return false
	}
	for range looksOn {
		s := &t.seats[t.order[p.next]]
		if s.at(t.turn).number() < s.base+t.turn {
			continue
		}
		p.looked = false // nobody tells: who could has posted later
		if t.read() {
			t.spins.vain = 0
			return true
		}
	}
	t.spins.vain = min(2*t.spins.vain+1, mostVain)
	t.spins.skip = t.spins.vain
	return false
}
