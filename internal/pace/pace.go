package pace

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
	Seat    Seat // where the thread goes if ranks share CPUs; nil: it stays
}

// crowded reports whether ranks share CPUs.
func (c *Config) crowded() bool { return c.Ranks > runtime.NumCPU() }

// Pace is how one rank waits.
type Pace struct {
	Looks     int // how often a receive looks by the shortcut before anything else
	spin      time.Duration
	check     int // polls between looks at the clock
	moveOff   func()
	neighbour neighbour
	seat      seating
}

// Yielder lets somebody else have the CPU.
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

	// IdleEvery is how many polls pass between polls of transports that carry nobody. A look at
	// sockets may cost as much as a hundred looks at memory.
	IdleEvery = 4096

	// PollEvery is how many receives may go by the shortcut without a poll: others may have sent
	// something. This costs 13 of 746 instructions of a message of 8 bytes.
	PollEvery = 64

	// MissEvery is how many calls that do not wait may find nothing before other goroutines run.
	// What they look for may need this processor, which the scheduler would leave to them for 10
	// ms.
	MissEvery = 16
)

// Init makes it the pace of a rank.
func (p *Pace) Init(c Config) {
	p.moveOff, p.seat.Seat = c.MoveOff, c.Seat
	p.Set(c)
}

// Set sets the pace for the number of ranks on the machine.
func (p *Pace) Set(c Config) {
	p.Looks, p.spin, p.check = looks, spin, check
	if c.crowded() {
		p.Looks, p.spin, p.check = 1, 0, 1
	}
}

// Shares reports whether this rank shares its CPU with others.
func (p *Pace) Shares() bool { return p.spin == 0 }

// Spell is the time since a poll last found something. The zero value begins a new one.
type Spell struct {
	polls   int
	yields  int
	begun   time.Time
	yielded time.Duration // from begun to the last yield
}

// Rest passes the time after a poll that found nothing. It reports false when it is time to sleep.
func (p *Pace) Rest(s *Spell, y Yielder) bool {
	if s.polls++; s.polls < p.check {
		return true
	}
	s.polls = 0
	return p.restLong(s, y)
}

func (p *Pace) restLong(s *Spell, y Yielder) bool {
	if s.yields == 0 && p.spin > 0 {
		if s.begun.IsZero() {
			s.begun = time.Now()
			return true
		}
		d := time.Since(s.begun)
		if d < p.spin {
			if s.yielded == 0 || d-s.yielded > yieldEvery {
				s.yielded = d
				y.Yield()
				p.lookAround(s, d)
			}
			return true
		}
	}
	if s.yields == yields {
		return false
	}
	s.yields++
	s.polls = p.check // and look at once
	y.Yield()
	return true
}

// lookAround is called after a yield that began that long after the spell did.
func (p *Pace) lookAround(s *Spell, began time.Duration) {
	ended := time.Since(s.begun)
	if p.moveOff != nil && p.neighbour.yielded(ended-began, s.begun.Add(ended)) {
		p.moveOff()
	}
}

// Turn is called before each turn of a team, with its number. Now and then the rank goes to its seat.
func (p *Pace) Turn(number uint64) {
	if number%seatEvery == 0 && p.seat.Seat != nil && p.Shares() {
		p.seat.look(time.Now())
	}
}

// YieldTurn lets ranks whose lines a turn waits for have the CPU.
func (p *Pace) YieldTurn(y Yielder) {
	if !p.seat.trial {
		y.Yield()
		return
	}
	begun := time.Now()
	y.Yield()
	now := time.Now()
	p.seat.yielded(now.Sub(begun), now)
}

// SharesWith reports whether a rank may share this rank's CPU, as far as is known.
func (p *Pace) SharesWith(rank int) bool { return p.seat.Seat == nil || p.seat.SharedWith(rank) }
