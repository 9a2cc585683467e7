package rpi

import (
	"runtime"
	"time"
)

// pace is how a leader spends its time between polls that find nothing: it
// polls without pause, then yields the CPU a few times, then sleeps. How long
// a poll takes differs a hundredfold between transports, so it goes by the clock,
// looked at every few polls.
type pace struct {
	spin  time.Duration
	check int // polls between looks at the clock
	short int // looks by the shortcut (see recvShort) before that, a few microseconds
}

// yields is how often a leader lets others have the CPU before it sleeps: where
// the others are as far as it is, all of them together cost less than one sleep.
const yields = 60

// yieldEvery is how often it does so while it spins, the first time as soon as
// an answer under way would be there: the rank that it waits for may have ended
// up on the same CPU.
const yieldEvery = 4 * time.Microsecond

// paceFor returns a pace for the ranks on this host. Where every one has a CPU a
// leader spins for as long as the ranks of a program that computes between its
// messages commonly differ: waking a sleeper on an idle virtual CPU takes 25 to
// 50 us, each time. Where ranks share CPUs it takes its time from the rank waited
// for, so it yields at once: that returns at once where nobody else has work.
func paceFor(cfg Config) pace {
	if cfg.crowded() {
		return pace{check: 1, short: 1}
	}
	return pace{spin: 2 * time.Millisecond, check: 64, short: 512}
}

// SetLocal tells the number of ranks on this host, as in Config, where a restart
// has changed it. Only the closer of the gate may call it.
func (e *Engine) SetLocal(n int) {
	cfg := Config{Size: e.size, Local: n}
	e.pace = paceFor(cfg)
	e.back.keepTime(&cfg)
}

// A leader with many receives before it looks less often: whoever looks for each
// message at once takes the memory that it comes through from its sender each
// time, and then these are slower than they could be. A short while is about
// 0.3 us.
const (
	manyReceives = 8
	shortWhile   = 1000
)

// crowded reports whether ranks share CPUs.
func (cfg *Config) crowded() bool { return cfg.local() > runtime.NumCPU() }

func (cfg *Config) local() int {
	if cfg.Local == 0 {
		return cfg.Size
	}
	return cfg.Local
}

// spell is the time since a leader's poll last found something.
type spell struct {
	polls   int
	yields  int
	begun   time.Time
	yielded time.Duration // since begun, when it last yielded
}

// rest is what a leader does after a poll that found nothing. It reports false
// when it is time to sleep.
func (e *Engine) rest(s *spell) bool {
	if e.mu.contended() {
		e.stepAside()
		return true
	}
	if e.table.listed >= manyReceives {
		for range shortWhile { // nothing
		}
	}
	if s.polls++; s.polls < e.pace.check {
		return true
	}
	s.polls = 0
	return e.restLong(s)
}

func (e *Engine) restLong(s *spell) bool {
	if s.yields == 0 && e.pace.spin > 0 {
		if s.begun.IsZero() {
			s.begun = time.Now()
			return true
		}
		d := time.Since(s.begun)
		if d < e.pace.spin {
			if s.yielded == 0 || d-s.yielded > yieldEvery {
				s.yielded = d
				e.waiter.Yield()
				e.lookAround(s, d)
			}
			return true
		}
	}
	if s.yields == yields {
		return false
	}
	s.yields++
	s.polls = e.pace.check // and look at once
	e.waiter.Yield()
	return true
}

// lookAround is called after a yield that began so long after the spell.
func (e *Engine) lookAround(s *spell, began time.Duration) {
	ended := time.Since(s.begun)
	if e.apart != nil && e.neighbour.yielded(ended-began, s.begun.Add(ended)) {
		e.apart()
	}
}
