package nodes

import (
	"slices"
	"strconv"
	"time"
)

// blow is a way to harm nodes, and to have them back.
type blow struct {
	name   string
	nodes  int // that it harms; 0: the head's own
	strike func(s *storm, v []string)
	until  until
	back   func(s *storm, v []string)

	givesUp  bool // the head does by itself
	takes    bool // gorun restart goes on with the job meanwhile
	outlasts bool // the job goes on before it is over
	freezes  bool // the node is frozen until it is back
	stops    bool // the head is stopped, which a frozen node would not show
}

// until is how long a blow lasts.
type until int

const (
	moment until = iota // nobody may notice
	lost                // the head gives the node up
	anew                // successors run
	ever                // to the end of the job
)

func (u until) String() string {
	return [...]string{"for a moment", "until it is lost", "until successors run", "for ever"}[u]
}

// blows are all of them.
var blows = allBlows()

func allBlows() []blow {
	all := []blow{
		{name: "power cut", nodes: 1, strike: (*storm).powerCut, until: ever},
		{name: "power cut of two", nodes: 2, strike: (*storm).powerCut, until: ever},
		{name: "power cut of the head", strike: (*storm).powerCut, until: ever, takes: true},
		{name: "head cut off", strike: (*storm).cutOff, until: ever, back: (*storm).heal, givesUp: true, takes: true},
		{name: "head frozen", strike: (*storm).freeze, until: anew, back: (*storm).thaw, takes: true, freezes: true},
		{name: "head paused", strike: (*storm).pause, until: anew, back: (*storm).resume, takes: true, freezes: true},
		{name: "head frozen", strike: (*storm).freeze, until: moment, back: (*storm).thaw, freezes: true},
		{name: "head stopped", strike: (*storm).stopHead, until: moment, back: (*storm).goOnHead, stops: true},
		{name: "head stopped", strike: (*storm).stopHead, until: anew, back: (*storm).goOnHead, stops: true, takes: true},
		{name: "halves", strike: (*storm).halve, until: ever, back: (*storm).heal, outlasts: true},
		{name: "pair cut", nodes: 2, strike: (*storm).cutPair, until: moment, back: (*storm).heal},
		{name: "pair cut", nodes: 2, strike: (*storm).cutPair, until: lost, back: (*storm).heal},
		{name: "keeper killed", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "KILL", "^gorun __keeper") }, until: ever},
		{name: "agent killed", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "KILL", "^gorun __agent") }, until: ever},
		{name: "rank killed", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "KILL", "^[^ ]*shared/march") }, until: ever},
		{name: "ssh killed", nodes: 1, strike: func(s *storm, v []string) { s.signal(s.head, "KILL", "-- "+v[0]+" /bin/sh") }, until: ever},
	}
	for _, u := range []until{moment, lost, anew} {
		all = append(all,
			blow{name: "unplugged", nodes: 1, strike: (*storm).unplug, until: u, back: (*storm).plug},
			blow{name: "cut off", nodes: 1, strike: (*storm).cutOff, until: u, back: (*storm).heal},
			blow{name: "cut from the head", nodes: 1, strike: (*storm).cutFromHead, until: u, back: (*storm).heal},
			blow{name: "muted", nodes: 1, strike: (*storm).mute, until: u, back: (*storm).heal},
			blow{name: "deaf", nodes: 1, strike: (*storm).deafen, until: u, back: (*storm).heal},
			blow{name: "frozen", nodes: 1, strike: (*storm).freeze, until: u, back: (*storm).thaw, freezes: true},
			blow{name: "paused", nodes: 1, strike: (*storm).pause, until: u, back: (*storm).resume, freezes: true},
			blow{name: "two paused", nodes: 2, strike: (*storm).pause, until: u, back: (*storm).resume, freezes: true},
			blow{name: "keeper stopped", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "STOP", "^gorun __keeper") }, until: u, back: func(s *storm, v []string) { s.signal(v[0], "CONT", "^gorun __keeper") }},
			blow{name: "agent stopped", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "STOP", "^gorun __agent") }, until: u, back: func(s *storm, v []string) { s.signal(v[0], "CONT", "^gorun __agent") }})
	}
	all = append(all, blow{name: "rank stopped", nodes: 1, strike: func(s *storm, v []string) { s.signal(v[0], "STOP", "^[^ ]*shared/march") }, until: moment, back: func(s *storm, v []string) { s.signal(v[0], "CONT", "^[^ ]*shared/march") }})
	for _, percent := range []int{5, 30} {
		all = append(all, blow{name: "loss of " + strconv.Itoa(percent) + " %", nodes: 1, strike: func(s *storm, v []string) { s.c.Loss(v[0], percent) }, until: moment, back: (*storm).heal})
	}
	for _, d := range []time.Duration{1, 50, 500} {
		d *= time.Millisecond
		all = append(all, blow{name: "delay of " + d.String(), nodes: 1, strike: func(s *storm, v []string) { s.c.Delay(v[0], d) }, until: moment, back: func(s *storm, v []string) { s.c.Delay(v[0], 0) }})
	}
	return append(all, blow{name: "10 Mbit/s", nodes: 1, strike: func(s *storm, v []string) { s.c.Rate(v[0], "10mbit") }, until: moment, back: func(s *storm, v []string) { s.c.Rate(v[0], "off") }})
}

func (s *storm) powerCut(v []string) {
	for _, n := range v {
		s.c.Kill(n)
		s.off = append(s.off, n)
	}
}

func (s *storm) freeze(v []string) { s.each(v, s.c.Freeze) }
func (s *storm) thaw(v []string)   { s.each(v, s.c.Thaw) }
func (s *storm) pause(v []string)  { s.each(v, s.c.Pause) }
func (s *storm) resume(v []string) { s.each(v, s.c.Resume) }
func (s *storm) unplug(v []string) { s.each(v, s.c.Unplug) }
func (s *storm) plug(v []string)   { s.each(v, s.c.Plug) }

func (s *storm) each(v []string, do func(string)) {
	for _, n := range v {
		do(n)
	}
}

func (s *storm) heal([]string)          { s.c.Heal() }
func (s *storm) cutOff(v []string)      { s.c.Partition(v, nil) }
func (s *storm) cutFromHead(v []string) { s.c.Partition(v, []string{s.head}) }
func (s *storm) mute(v []string)        { s.c.PartitionOneWay(v, []string{s.head}) }
func (s *storm) deafen(v []string)      { s.c.PartitionOneWay([]string{s.head}, v) }
func (s *storm) cutPair(v []string)     { s.c.Partition(v[:1], v[1:]) }

// halve cuts the head and some nodes off from all others. Nodes that are off are on the others' side: a restart there may switch them on. Half of
// all nodes are on it at least, so that a restart by hand has room.
func (s *storm) halve(v []string) {
	half, all := append([]string{}, v...), s.c.Nodes()
	s.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, n := range all {
		if s.rng.IntN(2) == 0 && len(half) < len(all)/2 && !slices.Contains(half, n) && !slices.Contains(s.off, n) {
			half = append(half, n)
		}
	}
	s.side = half
	s.c.Partition(half, nil)
}

// stopHead stops the head alone: its ranks go on.
func (s *storm) stopHead([]string) {
	s.stopped = s.j
	s.j.stop()
}

func (s *storm) goOnHead([]string) { s.stopped.goOn() }
