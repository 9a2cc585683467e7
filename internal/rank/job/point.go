package job

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// armedBit in the word of points means "stop at the next Point".
const armedBit = 1 << 63

// points counts the program's calls of Point and stops it at one of them. The count and the order to stop share
// a word. So one step reads the count and gives the order, and no Point can slip in between.
type points struct {
	word atomic.Uint64 // count of Points entered, and armedBit
	next atomic.Uint64 // Points before this one need no second look, unless armed

	every uint64 // at every so many a checkpoint is wanted (oob.Due); 0: never
	first uint64 // from which on they are counted

	mu      sync.Mutex
	target  uint64        // the Point to stop at, 0 while the head has not said
	release uint64        // Points up to this one are over: leave
	at      uint64        // the Point at which the program stands, 0 if none
	origin  origin        // the attempt it was armed for
	park    uint64        // the program stands at this Point until an attempt begins; 0: none
	parked  chan struct{} // closed when it does
	err     error         // set by fail
	due     uint64        // the newest Point at which the program has stood because a checkpoint is wanted there
	passed  uint64        // the head lets it go on from there up to this Point
	owed    []uint64      // Points to come at which others may have called their functions of OnCheckpoint, see owes
	changed chan struct{} // closed and replaced whenever one of them changes
}

func (p *points) init() {
	p.changed = make(chan struct{})
	p.next.Store(1)
}

// setEvery says at how many Points a checkpoint is wanted. A program that goes on from a portable image comes to its
// Point again as its first: they are counted from there.
func (p *points) setEvery(n uint64, restarted bool) {
	p.update(func() {
		p.every, p.first = n, 0
		if restarted {
			p.first = 1
		}
		p.next.Store(1) // the next Point finds which is due
	})
}

// wanted reports whether a checkpoint is wanted at Point n, and sets which Point has to look again. Caller holds mu.
func (p *points) wanted(n uint64) bool {
	if p.every == 0 {
		p.lookAgain(n, armedBit)
		return false
	}
	since := n - p.first
	p.lookAgain(n, n+p.every-since%p.every)
	return since > 0 && since%p.every == 0
}

// lookAgain sets the Point after n that has to look again: next, or one that is owed. Caller holds mu.
func (p *points) lookAgain(n, next uint64) {
	for _, o := range p.owed {
		if o > n {
			next = min(next, o)
		}
	}
	p.next.Store(next)
}

// owes reports whether the rank has to call its functions of OnCheckpoint at Point n, and notes that it does. Every rank that is told
// where an attempt stops owes that, even if the attempt is given up before it comes there: ranks that were there sooner have called
// theirs, which may communicate.
func (p *points) owes(n uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.owed, n)
	if i >= 0 {
		p.owed = slices.Delete(p.owed, i, i+1)
	}
	return i >= 0
}

// pass lets the program go on from a due Point.
func (p *points) pass(n uint64) {
	p.update(func() { p.passed = max(p.passed, n) })
}

// stands reports whether the program stands at Point n, which is due and which it was not let go from. Caller holds mu.
func (p *points) stands(n uint64) bool {
	return p.due == n && n > p.passed && n > p.release && p.err == nil
}

// begun reports whether the program has come to a Point.
func (p *points) begun() bool { return p.word.Load()&^armedBit != 0 }

// arm orders a stop at the next Point and returns how many were entered so far.
func (p *points) arm(o origin) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.origin, p.park = 0, o, 0
	n := p.word.Or(armedBit) &^ armedBit
	if n > 0 && p.stands(n) {
		n-- // it has not passed it
	}
	return n
}

// runTo names the Point to stop at.
func (p *points) runTo(n uint64) {
	p.update(func() {
		p.target = n
		if n > p.word.Load()&^armedBit {
			p.owed = append(p.owed, n)
			p.next.Store(min(p.next.Load(), n))
		}
	})
}

// disarm lets the program go.
func (p *points) disarm() {
	p.update(func() {
		p.release = p.word.And(^uint64(armedBit)) &^ armedBit
		p.target, p.at = 0, 0
		if p.err != nil {
			p.word.Or(armedBit) // see fail
		}
	})
}

func (p *points) fail(err error) {
	p.update(func() { p.err = err })
	p.word.Or(armedBit) // then every later Point takes the slow way and sees the error
}

func (p *points) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

func (p *points) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// ParkAt makes the program stand at its n-th Point, which it has not come to, until an attempt to take an image
// begins. That attempt then images the program at the next Point. The channel is closed when the program stands
// there. It is for tests of programs, which name the Point to be imaged at.
func (j *Job) ParkAt(n uint64) <-chan struct{} {
	p := &j.points
	p.mu.Lock()
	defer p.mu.Unlock()
	p.park, p.parked = n, make(chan struct{})
	p.word.Or(armedBit)
	return p.parked
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// standing returns the Point at which the program is stopped, 0 if none.
func (p *points) standing() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Point marks a place where the program may be stopped for an image. The k-th Points of all ranks form a cut. A
// message sent before it is either received before the other side's Point, or saved with the receiver's image.
func (j *Job) Point() error {
	n := j.points.word.Add(1)
	if n >= j.points.next.Load() { // armedBit is the largest
		return j.pointSlow(n &^ armedBit)
	}
	return nil
}

func (j *Job) pointSlow(n uint64) error {
	if n == 1 && j.began.Input {
		// A program that runs from the top reads again the standard input that it has read up to here. Its
		// agent can tell how much that is, and looks while the program stands here.
		if err := j.send(oob.Msg{Kind: oob.Input}); err != nil {
			return fmt.Errorf("rank %d: Point: the launcher is gone: %w", j.Rank, err)
		}
		<-j.noted
	}
	if n == 1 && j.Restarted() {
		b := j.Backend()
		if b == nil {
			return ErrNoBackend
		}
		if err := b.FirstPoint(); err != nil {
			return err
		}
	}
	stopped, err := j.stopAt(n)
	if err != nil || !stopped {
		return err
	}
	return j.Backend().After()
}

// stopAt stands at Point n for as long as the driver wants. It reports whether the program was
// stopped there for an image
func (j *Job) stopAt(n uint64) (stopped bool, err error) {
	p := &j.points
	p.mu.Lock()
	wanted := p.wanted(n)
	p.mu.Unlock()
	for {
		p.mu.Lock()
		if p.park != 0 && n < p.park && p.err == nil {
			p.mu.Unlock()
			return false, nil
		}
		if p.park == n && !closed(p.parked) {
			close(p.parked)
		}
		armed := p.word.Load()&armedBit != 0
		target, release, changed, err := p.target, p.release, p.changed, p.err
		here := armed && target == n && release < n
		announce, origin := here && !stopped, p.origin
		if here {
			p.at = n
		} else if stopped {
			p.at = 0
		}
		tell := wanted && !armed && p.due != n && p.release < n
		if tell {
			p.due = n
		}
		stands := wanted && !armed && p.stands(n)
		p.mu.Unlock()
		switch {
		case err != nil:
			return stopped, err
		case tell:
			if err := j.send(oob.Msg{Kind: oob.Due, A: n}); err != nil {
				return stopped, fmt.Errorf("rank %d: Point: the launcher is gone: %w", j.Rank, err)
			}
		case stands:
		case !armed, release >= n, target != 0 && n < target:
			if !stopped && j.points.owes(n) {
				stopped = true
				_ = j.Backend().OnCheckpoint() // an error would end the attempt, which is over
			}
			return stopped, nil
		case announce:
			stopped = true
			j.announce(n, origin)
		}
		<-changed
	}
}

// announce tells the driver that the program stands at Point n, or why it must not be imaged there.
func (j *Job) announce(n uint64, o origin) {
	ev := ckpt.RankEvent{Type: ckpt.EvAtPoint, N: n}
	b := j.Backend()
	j.points.owes(n)
	start := time.Now()
	err := b.Ready()
	if e := b.OnCheckpoint(); err == nil { // even if not ready: other ranks may wait for this one's part in theirs
		err = e
	}
	if err == nil {
		err = b.Before()
		ev.Size = uint64(time.Since(start))
	}
	if err == nil {
		if pending := j.Engine.AtPoint(); len(pending) > 0 {
			err = fmt.Errorf("%d request(s) pending at Point %d: %s: complete them before cr.Point", len(pending), n, strings.Join(pending, ", "))
		}
	}
	if err != nil {
		ev = unable(err)
	}
	j.driver.tell(o, ev)
}

// ThroughCollective explains why a cut at the present Point is refused. A collective of a context lies before
// the cut on one of two ranks, this one or the other, and after it on the other. The restarted program could
// not tell to which of its calls the saved half belongs.
func (j *Job) ThroughCollective(ctx uint64, rank int, ahead bool) error {
	path, ok := j.ContextPath(ctx)
	if !ok {
		path = "a communicator that was freed"
	}
	before, after := "here", fmt.Sprintf("on rank %d", rank)
	if ahead {
		before, after = after, before
	}
	return fmt.Errorf("a collective on %s lies before Point %d %s and after it %s: call it on the same side of the Point on all ranks",
		path, j.points.standing(), before, after)
}
