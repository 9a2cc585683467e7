package backoff

import "time"

// stranger finds out that this rank shares its CPU with a program that is not of its job. A rank
// of the job that is given the CPU gives it back within microseconds, because it waits as well. A
// program that computes keeps it for a time slice.
//
// A rank that yields to such a program gives its share of the CPU away: each yield costs a slice of
// milliseconds. So beside a stranger a rank does not yield. It spins for as long as an answer may
// be under way, in its own share, and then sleeps. A sleeper loses nothing of its share, and the
// system runs it as soon as it is woken. Ranks of its own job get the CPU by that, too, however
// many there are.
//
// The stranger may leave. So after a while the rank yields once and looks how long that takes.
type stranger struct {
	since time.Time     // the first of some long yields
	lost  time.Duration // to these; 0: there was none lately
	most  time.Duration // and this is what a stranger takes
	stay  time.Duration // how long the rank relies on the stranger's being there; 0: none was met lately
	until time.Time     // and up to when
	count uint32        // yields, of which some are timed
}

const (
	// longSlice is how long a program runs that does not wait for messages of this job: the least
	// slice of a system is .7 to 3 ms. Computing ranks of the job may run for as long. To sleep is
	// right beside them, too.
	longSlice = 500 * time.Microsecond

	// Where ranks share CPUs, a stranger counts that takes a quarter of the CPU. A program that
	// runs only now and then does not: sleeping takes longer than yielding to ranks.
	span       = 20 * time.Millisecond
	lostShared = span / 4

	// spinBeside is how long a rank with a CPU of its own spins beside a stranger before it sleeps. It
	// is longer than a sleeper takes to get up and answer. With less, ranks would find each other asleep
	// with each message.
	spinBeside = 200 * time.Microsecond

	// A yield to see whether the stranger is still there costs a slice. So there is one each firstStay
	// at first, and one each lastStay in the end.
	firstStay = 20 * time.Millisecond
	lastStay  = time.Second

	// timeEvery is how many yields of a rank that shares its CPU pass for each that is timed.
	timeEvery = 8
)

// here reports whether the rank has reason to take a stranger to be there.
func (s *stranger) here(now time.Time) bool { return s.stay != 0 && now.Before(s.until) }

// timed reports whether the next yield is to be timed.
func (s *stranger) timed() bool {
	s.count++
	return s.stay != 0 || s.lost != 0 || s.count%timeEvery == 0
}

// yielded notes that a yield took so long and ended at now. It reports whether a stranger had the
// CPU.
func (s *stranger) yielded(took time.Duration, now time.Time) (met bool) {
	if s.lost != 0 && now.Sub(s.since) > span {
		s.lost = 0
	}
	lately := s.stay != 0 && now.Sub(s.until) <= s.stay
	switch {
	case took < longSlice && !lately:
		s.stay = 0
		return false
	case took < longSlice:
		return false
	case lately:
		s.stay = min(2*s.stay, lastStay)
	default:
		if s.lost == 0 {
			s.since = now.Add(-took)
		}
		if s.lost += took; s.lost < s.most {
			return false
		}
		s.stay = firstStay
	}
	s.until = now.Add(s.stay)
	return true
}
