package rpi

import "time"

// homing spreads ranks that share CPUs evenly. Who waits in turns is always ready to run
// and runs for a microsecond, and to a system that evens out load many such ranks are
// hardly any: it has been seen to leave 10 of 16 on one of two CPUs for a tenth of a
// second, and all of them while somebody else computed on the other one. A turn of all
// takes as long as the fullest CPU needs. So a rank looks now and then whether it is on
// the CPU that is its home, and if not goes there, from where the system may move it on.
//
// There may be somebody else who does not yield. Then each turn takes as long as the
// system gives that one, and the rank was better off where it was.
type homing struct {
	Home            // nil: this rank has none
	trial bool      // it is not clear yet whether this rank is better off there
	next  time.Time // before then it stays where it is
	pause time.Duration
}

// Home is one of the CPUs of a machine, each of which is the home of as many of its ranks
// as any other.
type Home interface {
	// Go moves the calling thread there. It reports false if it was there already, or
	// cannot go.
	Go() bool
	// Back moves it to where it was before.
	Back()
	// Near reports whether it is another rank's home, too.
	Near(rank int) bool
}

const (
	homeEvery   = 64                    // turns between looks, and of a trial
	homePause   = 10 * time.Millisecond // until it may move again; doubled each time
	homeLast    = 80 * time.Millisecond
	awayPause   = 40 * time.Millisecond // the same where somebody did not yield, as all do while they begin; four times as long each time
	awayLast    = 64 * time.Second
	strangerRan = time.Millisecond // longer than all ranks together take to yield
)

// look looks where this rank is.
func (h *homing) look(now time.Time) {
	h.trial = false
	if now.Before(h.next) {
		return
	}
	if h.trial = h.Go(); !h.trial {
		h.pause /= 2
		h.next = now.Add(homePause)
		return
	}
	if h.pause < homeLast {
		h.pause = min(max(2*h.pause, homePause), homeLast)
	}
	h.next = now.Add(h.pause)
}

// yielded notes, on trial, that yielding took so long, until now.
func (h *homing) yielded(took time.Duration, now time.Time) {
	if took < strangerRan {
		return
	}
	h.Back()
	h.trial = false
	h.pause = min(max(4*h.pause, awayPause), awayLast)
	h.next = now.Add(h.pause)
}

// goHome looks where this rank is, if it shares CPUs with others.
func (e *Engine) goHome() {
	if e.home.Home != nil && e.pace.spin == 0 {
		e.home.look(time.Now())
	}
}

// yieldTurn lets others have the CPU, whose lines a turn waits for.
func (e *Engine) yieldTurn() {
	if !e.home.trial {
		e.waiter.Yield()
		return
	}
	begun := time.Now()
	e.waiter.Yield()
	now := time.Now()
	e.home.yielded(now.Sub(begun), now)
}
