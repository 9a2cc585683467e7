package backoff

import (
	"runtime"
	"time"
)

// Config says where a rank is.
type Config struct {
	Ranks int // on this machine
	// MoveOff is called when this rank seems to share a CPU although there is one for each rank.
	// It should move the calling thread to another CPU. nil: the thread stays.
	MoveOff func()
	// Hurry is called when a program that is not of the job has had this rank's CPU. It should make
	// the system run this rank soon when it is woken. nil: such programs are not looked for, and no
	// clock is read where ranks share CPUs.
	Hurry func()
	Seat  Seat // where the thread goes if ranks share CPUs; nil: it stays
}

// crowded reports whether ranks share CPUs.
func (c *Config) crowded() bool { return c.Ranks > runtime.NumCPU() }

// Backoff is how one rank waits.
type Backoff struct {
	Looks     int // how often a receive looks by the shortcut before anything else
	spin      time.Duration
	check     int // polls between looks at the clock
	moveOff   func()
	hurry     func()
	now       func() time.Time
	neighbour neighbour
	stranger  stranger
	seat      seating
}

// Yielder lets another process have the CPU.
type Yielder interface{ Yield() }

const (
	// spin is how long a rank with a CPU of its own polls before it sleeps. It is as long as the
	// ranks of a program that computes between its messages commonly differ. A sleep costs 25 to
	// 50 us each time (virtual CPUs of an EPYC 9004), a ping-pong of 8 bytes 0.1 us.
	spin = 2 * time.Millisecond

	// check is how many polls there are between looks at the clock. A look at the clock takes as
	// long as a poll or two of memory.
	check = 64

	// looks is how often a receive looks by the shortcut: a few microseconds. 8 bytes take 0.8 of
	// the time by the shortcut (EPYC 9004). With a single look 2, 4 and 8 KB take 1.11, 1.15 and
	// 1.24 of the time (Intel Xeon, best of 40 alternating runs). If ranks share CPUs, a receive
	// looks once: 512 looks, each at the rings of all peers, kept the CPU from the rank that it
	// waits for.
	looks = 512

	// yields is how often a rank yields before it sleeps. If the others are as far as this rank
	// is, all the yields together cost less than one sleep. With 5 yields round trips of 8 bytes
	// take 1.20 of the time on 4 ranks and 1.09 on 8, with 20 yields 1.10 and 1.15, with 200 .98
	// and .76 while others use the CPUs (EPYC, 2 CPUs). More yields keep a CPU busy for longer.
	yields = 60

	// yieldEvery is the time between yields of a rank that spins. The first comes as soon as an
	// answer under way would be there. The rank waited for may be on the same CPU, as half of all
	// pairs are that a system starts. A message then takes fifty times as long (EPYC 9004).
	yieldEvery = 4 * time.Microsecond

	// YieldsFirst is how often a rank that shares its CPU yields before it polls for a turn. With
	// many ranks a poll costs more than the turn of each. Without these yields an allreduce of 8
	// bytes on 4 ranks takes 1.12 to 1.21 of the time, a barrier of 16 ranks 1.15 (Intel Xeon, 2
	// CPUs).
	YieldsFirst = 4

	// IdleEvery is how many polls pass between polls of transports that carry no peer. A look
	// at sockets may cost as much as a hundred looks at memory.
	IdleEvery = 4096

	// PollEvery is how many receives may go by the shortcut without a poll: others may have sent
	// something. This costs 13 of 746 instructions of a message of 8 bytes.
	PollEvery = 64

	// MissEvery is how many calls that do not wait may find nothing before other goroutines run.
	// The goroutine that they wait for may need this processor, which the scheduler would leave
	// to them for 10 ms.
	MissEvery = 16
)

// Init makes it the pace of a rank.
func (p *Backoff) Init(c Config) {
	p.moveOff, p.hurry, p.seat.Seat = c.MoveOff, c.Hurry, c.Seat
	if p.now == nil {
		p.now = time.Now
	}
	p.Set(c)
}

// Set sets the pace for the number of ranks on the machine.
func (p *Backoff) Set(c Config) {
	p.Looks, p.spin, p.check, p.stranger.most = looks, spin, check, longSlice
	if c.crowded() {
		p.Looks, p.spin, p.check, p.stranger.most = 1, 0, 1, lostShared
	}
}

// Shares reports whether this rank shares its CPU with others.
func (p *Backoff) Shares() bool { return p.spin == 0 }

// Spell is the time since a poll last found something. The zero value begins a new one.
type Spell struct {
	polls   int
	yields  int
	begun   time.Time
	yielded time.Duration // from begun to the last yield
}

// Rest passes the time after a poll that found nothing. It reports false when it is time to sleep.
func (p *Backoff) Rest(s *Spell, y Yielder) bool {
	if s.polls++; s.polls < p.check {
		return true
	}
	s.polls = 0
	if p.spin == 0 {
		return p.restShared(s, y)
	}
	return p.restAlone(s, y)
}

// restAlone is Rest for a rank with a CPU of its own.
func (p *Backoff) restAlone(s *Spell, y Yielder) bool {
	if s.yields == 0 {
		now := p.now()
		if s.begun.IsZero() {
			s.begun = now
			return true
		}
		d, beside := now.Sub(s.begun), p.stranger.here(now)
		switch {
		case beside && d < spinBeside:
			return true
		case beside:
			if p.moveOff != nil && p.neighbour.sleeps(now) {
				p.moveOff()
			}
			return false
		case d >= p.spin:
		case s.yielded == 0 || d-s.yielded > yieldEvery:
			s.yielded = d
			p.yield(now, y)
			return true
		default:
			return true
		}
	}
	return p.yieldOn(s, y)
}

// restShared is Rest for a rank that shares its CPU with others.
func (p *Backoff) restShared(s *Spell, y Yielder) bool {
	if p.stranger.stay != 0 && p.stranger.here(p.now()) {
		return false
	}
	return p.yieldOn(s, y)
}

// yieldOn yields as often as a rank does before it sleeps. It reports false when it has.
func (p *Backoff) yieldOn(s *Spell, y Yielder) bool {
	if s.yields == yields {
		return false
	}
	s.yields++
	s.polls = p.check // and look at once
	if p.hurry == nil && p.Shares() || !p.stranger.timed() {
		y.Yield()
	} else {
		p.yield(p.now(), y)
	}
	return true
}

// yield yields at begun, and draws conclusions from how long that takes.
func (p *Backoff) yield(begun time.Time, y Yielder) {
	y.Yield()
	now := p.now()
	took := now.Sub(begun)
	if p.hurry != nil && p.stranger.yielded(took, now) {
		p.hurry()
	}
	if p.seat.trial {
		p.seat.yielded(took, now)
	}
	if p.moveOff != nil && !p.Shares() && p.neighbour.yielded(took, now) {
		p.moveOff()
	}
}

// Turn is called before each turn of a team, with its number. Now and then the rank goes to its seat.
func (p *Backoff) Turn(number uint64) {
	if number%seatEvery == 0 && p.seat.Seat != nil && p.Shares() {
		p.seat.look(p.now())
	}
}

// YieldTurn lets ranks whose lines a turn waits for have the CPU. It reports false if another
// program would get it.
func (p *Backoff) YieldTurn(y Yielder) bool {
	switch {
	case p.stranger.stay != 0 && p.stranger.here(p.now()):
		return false
	case p.seat.trial || p.hurry != nil && p.stranger.timed():
		p.yield(p.now(), y)
	default:
		y.Yield()
	}
	return true
}

// SharesWith reports whether a rank may share this rank's CPU, as far as is known.
func (p *Backoff) SharesWith(rank int) bool { return p.seat.Seat == nil || p.seat.SharedWith(rank) }
