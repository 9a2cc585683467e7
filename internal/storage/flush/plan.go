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

// State is the state of a level.
type State struct {
	Level
	Due  time.Time // when the next copy is to begin
	From time.Time // when the newest copy, or the plan, was begun
	Last int       // the newest snapshot that is there; 0: none
	At   time.Time // when it was there
	Took time.Duration

	Fails int    // copies that have failed since
	Err   string // why the last of them failed

	Busy  bool // it gets a copy now
	began time.Time
}

// Plan says when which level gets a copy. It is pure logic: the caller passes in the time and the
// results of copies. A level gets one copy at a time, independent of the others, and always the
// newest snapshot available to it, so a level that cannot keep up skips snapshots. A copy that
// fails is tried again after a growing pause, of at most the level's interval or mostPause.
type Plan struct {
	Levels []State // weakest first
}

// Pauses after a failure.
const (
	firstPause = time.Second
	mostPause  = 5 * time.Minute
)

// NewPlan returns a plan that begins now.
func NewPlan(levels []Level, now time.Time) *Plan {
	p := &Plan{}
	for _, l := range levels {
		p.Levels = append(p.Levels, State{Level: l, Due: now.Add(l.Every), From: now})
	}
	return p
}

// Next returns a level that is to get a snapshot now. newest returns the newest snapshot available
// to a level, 0 if there is none now. Next reports false if no level is due that lacks a new
// snapshot. A level that is due and has the newest is not late.
func (p *Plan) Next(newest func(level int) int, now time.Time) (level int, ok bool) {
	level = -1
	for i := range p.Levels {
		l := &p.Levels[i]
		if l.Every == 0 || l.Busy || now.Before(l.Due) {
			continue
		}
		switch n := newest(i); {
		case l.Last < n && (level < 0 || l.Due.Before(p.Levels[level].Due)):
			level = i
		case l.Last >= n && (n > 0 || l.Last == 0):
			l.Due = now
		}
	}
	return level, level >= 0
}

// Begin records that a level gets a copy. said tells the user which snapshots were skipped because
// the level cannot keep up, "" if none were.
func (p *Plan) Begin(level int, now time.Time) (said string) {
	l := &p.Levels[level]
	if late := int(now.Sub(l.Due) / l.Every); late > 0 && l.Fails == 0 {
		said = fmt.Sprintf("level %s cannot follow: skipping %d of its copies, the newest snapshot is copied now", l.Name, late)
	}
	l.Busy, l.began, l.From, l.Due = true, now, now, now.Add(l.Every)
	return said
}

// SetEvery gives a level another interval, which counts from the beginning of its newest copy; 0:
// it gets no more.
func (p *Plan) SetEvery(level int, every time.Duration) {
	l := &p.Levels[level]
	if l.Every = every; l.Fails == 0 {
		l.Due = l.From.Add(every)
	}
}

// End records the result of a copy.
func (p *Plan) End(level, seq int, err error, now time.Time) (said string) {
	l := &p.Levels[level]
	l.Busy = false
	if err == nil {
		if l.Fails > 0 {
			said = fmt.Sprintf("level %s gets snapshots again", l.Name)
		}
		l.Last, l.At, l.Took, l.Fails, l.Err = seq, now, now.Sub(l.began), 0, ""
		return said
	}
	if Reason(l.Err) != Reason(err.Error()) {
		said = fmt.Sprintf("the job runs with less protection than asked for: level %s did not get snapshot %d, and it is tried again: %v", l.Name, seq, err)
	}
	l.Fails, l.Err = l.Fails+1, err.Error()
	l.Due = now.Add(min(firstPause<<min(l.Fails-1, 20), max(l.Every, firstPause), mostPause))
	return said
}

// numbers matches the parts in which texts about different snapshots, files or ranks differ.
var numbers = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// Reason is the text of an error without the snapshot, rank or file that it is about. A further
// failure for the same reason is not reported again.
func Reason(said string) string { return numbers.ReplaceAllString(said, "#") }

// Wait is how long until a level that gets no copy now is due, at least a moment. It reports false if there is none.
func (p *Plan) Wait(now time.Time) (time.Duration, bool) {
	var next time.Time
	for _, l := range p.Levels {
		if l.Every > 0 && !l.Busy && (next.IsZero() || l.Due.Before(next)) {
			next = l.Due
		}
	}
	return max(next.Sub(now), 100*time.Millisecond), !next.IsZero()
}
