package backoff

import "time"

// seating spreads ranks that share CPUs evenly. A rank that waits in turns is always ready to run,
// and runs for a microsecond. A system that balances load hardly counts such ranks. It has left 10
// of 16 on one of two CPUs for a tenth of a second. It has left all 16 there while another program
// computed on the other CPU. A turn of all ranks takes as long as the fullest CPU needs. So a rank
// looks now and then whether it is on the CPU that is its seat. If not, it goes there. The system
// may move it on.
//
// Another program on that CPU may not yield. Each turn then takes as long as the system gives that
// program, and the rank was better off where it was: it goes back.
type seating struct {
	Seat            // nil: this rank stays where it is
	trial bool      // this rank has just moved, and may be worse off there
	next  time.Time // it does not look before then
	pause time.Duration
}

// Seat is the CPU of a rank among those of its machine. Each CPU is the seat of as many ranks as
// any other.
type Seat interface {
	// Go moves the calling thread to the seat. It reports false if the thread was there already, or
	// cannot go.
	Go() bool
	// Back moves the calling thread to where it was before Go.
	Back()
	// SharedWith reports whether it is the seat of that rank, too.
	SharedWith(rank int) bool
}

// Spread evenly, 16 ranks on 2 CPUs take 0.86 (allgather) to 0.97 (barrier) of the time (EPYC
// 9004). A move takes 20 us. Looking more often or less often changed nothing.
const (
	seatEvery = 64                    // turns between looks, and turns of a trial
	seatPause = 10 * time.Millisecond // until the next look; doubled with each move, up to seatLast
	seatLast  = 80 * time.Millisecond
	awayPause = 40 * time.Millisecond // the same after a failed trial, as when ranks start; times four, to awayLast
	awayLast  = 64 * time.Second
	awayRan   = time.Millisecond // longer than all ranks together take to yield
)

// look goes to its seat if this rank is elsewhere, unless it has done so too recently.
func (h *seating) look(now time.Time) {
	h.trial = false
	if now.Before(h.next) {
		return
	}
	if h.trial = h.Go(); !h.trial {
		h.pause /= 2
		h.next = now.Add(seatPause)
		return
	}
	if h.pause < seatLast {
		h.pause = min(max(2*h.pause, seatPause), seatLast)
	}
	h.next = now.Add(h.pause)
}

// yielded notes that a yield during a trial took so long and ended at now.
func (h *seating) yielded(took time.Duration, now time.Time) {
	if took < awayRan {
		return
	}
	h.Back()
	h.trial = false
	h.pause = min(max(4*h.pause, awayPause), awayLast)
	h.next = now.Add(h.pause)
}
