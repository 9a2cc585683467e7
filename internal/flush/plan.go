package flush

import (
	"fmt"
	"regexp"
	"time"
)

// Level is a place that snapshots are copied to now and then.
type Level struct {
	Name  string
	Every time.Duration // 0: it gets none
}

// State is where a level stands.
type State struct {
	Level
	Due  time.Time // when the next copy is to begin
	From time.Time // when the newest one was begun, or the plan
	Last int       // the newest snapshot that is there; 0: none
	At   time.Time // when it was there
	Took time.Duration

	Fails int    // copies that have failed since
	Err   string // why the last of them has
}

// Plan says when which level gets a copy. It is pure logic: the caller tells the time and what has become of copies.
// One copy is made at a time, always of the newest snapshot: a level that cannot follow leaves snapshots out. A copy that
// fails is tried again, first soon and then ever later, at most after the level's interval or mostPause.
type Plan struct {
	Levels []State // weakest first
	busy   int     // of Levels, 1 is the first; 0: none
	began  time.Time
}

// Pauses after a failure.
const (
	firstPause = time.Second
	mostPause  = 5 * time.Minute
)

// NewPlan is a plan from now on.
func NewPlan(levels []Level, now time.Time) *Plan {
	p := &Plan{}
	for _, l := range levels {
		p.Levels = append(p.Levels, State{Level: l, Due: now.Add(l.Every), From: now})
	}
	return p
}

// Next returns the level that is to get the newest snapshot now. It reports false if none is due, none has anything new
// to get, or a copy is under way.
func (p *Plan) Next(newest int, now time.Time) (level int, ok bool) {
	level = -1
	if p.busy > 0 || newest == 0 {
		return level, false
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		if l.Every > 0 && !now.Before(l.Due) && l.Last < newest && (level < 0 || l.Due.Before(p.Levels[level].Due)) {
			level = i
		}
	}
	return level, level >= 0
}

// Begin notes that a level gets a copy. said tells of what was left out because the level cannot follow, "" of nothing.
func (p *Plan) Begin(level int, now time.Time) (said string) {
	l := &p.Levels[level]
	if late := int(now.Sub(l.Due) / l.Every); late > 0 && l.Fails == 0 {
		said = fmt.Sprintf("level %s cannot follow: skipping %d of its copies, the newest snapshot is copied now", l.Name, late)
	}
	p.busy, p.began, l.From, l.Due = level+1, now, now, now.Add(l.Every)
	return said
}

// SetEvery gives a level another interval, which counts from when its newest copy was begun; 0: it gets no more.
func (p *Plan) SetEvery(level int, every time.Duration) {
	l := &p.Levels[level]
	if l.Every = every; l.Fails == 0 {
		l.Due = l.From.Add(every)
	}
}

// End notes what has become of it.
func (p *Plan) End(seq int, err error, now time.Time) (said string) {
	l := &p.Levels[p.busy-1]
	p.busy = 0
	if err == nil {
		if l.Fails > 0 {
			said = fmt.Sprintf("level %s gets snapshots again", l.Name)
		}
		l.Last, l.At, l.Took, l.Fails, l.Err = seq, now, now.Sub(p.began), 0, ""
		return said
	}
	if Reason(l.Err) != Reason(err.Error()) {
		said = fmt.Sprintf("the job runs with less protection than asked for: level %s did not get snapshot %d, and it is tried again: %v", l.Name, seq, err)
	}
	l.Fails, l.Err = l.Fails+1, err.Error()
	l.Due = now.Add(min(firstPause<<min(l.Fails-1, 20), max(l.Every, firstPause), mostPause))
	return said
}

// numbers are what tells snapshots, files and ranks of one kind apart.
var numbers = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// Reason is what an error says, whichever snapshot, rank or file it is about. What fails for the same reason again is not told again.
func Reason(said string) string { return numbers.ReplaceAllString(said, "#") }

// Busy is the level that gets a copy now, -1 if none does.
func (p *Plan) Busy() int { return p.busy - 1 }

// Wait is how long until a level is due, at least a moment. It reports false if there is none.
func (p *Plan) Wait(now time.Time) (time.Duration, bool) {
	var next time.Time
	for _, l := range p.Levels {
		if l.Every > 0 && (next.IsZero() || l.Due.Before(next)) {
			next = l.Due
		}
	}
	return max(next.Sub(now), 100*time.Millisecond), !next.IsZero()
}

// Strongest is the last level, if it lacks the snapshot.
func (p *Plan) Strongest(newest int) (level int, lacks bool) {
	level = len(p.Levels) - 1
	return level, level >= 0 && newest > 0 && p.Levels[level].Last < newest
}
