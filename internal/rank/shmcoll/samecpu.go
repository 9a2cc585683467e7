package shmcoll

import "github.com/gorun-mpi/gorun/internal/rank/backoff"

// Where ranks share CPUs, a rank that has posted its line lets others have the CPU, and finds the
// turn over when it runs again. The last rank on its CPU need not do so: the others there have
// posted their lines, too, and can only wait for ranks on other CPUs, as it does itself. So it
// looks on for a while, finds the turn over at once, and posts its next line before it lets others
// have the CPU. They then find one turn over and post their lines of the next. That saves one
// change of process on each CPU, of two where two ranks share it.
//
// Which ranks share a CPU is a guess (Host.SharesCPU): see backoff.Looker.

// mostSameCPU is how many other members may share this rank's CPU. Of a great many changes of
// process, one less is little.
const mostSameCPU = 15

// arrange sets the order in which members are looked at: first those that share this rank's CPU,
// from the next place on, and last this rank itself.
func (t *Team) arrange() {
	n := len(t.members)
	var others []int
	for k := 1; k < n; k++ {
		if i := (t.me + k) % n; t.set.host.SharesCPU(t.members[i]) {
			t.order = append(t.order, i)
		} else {
			others = append(others, i)
		}
	}
	if t.sameCPU = len(t.order); t.sameCPU > mostSameCPU {
		t.sameCPU = n - 1
	}
	t.order = append(append(t.order, others...), t.me)
}

// waitedFor returns the place of the member that the turn waits for as number k.
func (t *Team) waitedFor(k int) int {
	p := &t.now
	if !p.ordered {
		if k += p.first; k >= len(t.seats) {
			k -= len(t.seats)
		}
		return k
	}
	if k < t.sameCPU {
		if k += p.first; k >= t.sameCPU {
			k -= t.sameCPU
		}
	}
	return t.order[k]
}

// comesLate notes that the line of number k is not there. The next turn looks at that member
// first.
func (t *Team) comesLate(k int) {
	if p := &t.now; p.ordered && k < t.sameCPU {
		if t.late = k + p.first; t.late >= t.sameCPU {
			t.late -= t.sameCPU
		}
	}
}

// LookOn looks on for the lines of members on other CPUs, if all lines of members on this CPU are
// there. It reports whether the turn is over.
func (t *Team) LookOn() bool {
	p := &t.now
	if !p.ordered || !p.posted || p.next < t.sameCPU {
		return false
	}
	return t.looker.Looks() && t.looker.Found(t.seesRest())
}

// seesRest looks for a while for the lines that are left.
func (t *Team) seesRest() bool {
	p := &t.now
	for range backoff.OnLooks {
		s := &t.seats[t.order[p.next]]
		if s.at(t.turn).number() < s.base+t.turn {
			continue
		}
		p.looked = false // skip hears: those that could tell have only just posted
		if t.read() {
			return true
		}
	}
	return false
}
