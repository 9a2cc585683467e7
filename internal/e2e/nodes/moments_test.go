package nodes

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Texts that a head says at steps of its job.
var (
	startSteps      = []string{"ranks started", "transports:", "ranks are up"}
	restartSteps    = []string{"is lost", "restarting from", "ranks restored", "ranks started", "transports:", "ranks are up"}
	moveSteps       = []string{"ranks move", "checkpoint: ahead", "checkpoint: moving", "move: another incarnation", "moved:"}
	checkpointSteps = []string{"points", "closing", "draining", "capturing", "writing", "committing", "committed"}
	copySteps       = []string{"level dir is to have", "level dir has snapshot"}
	protectSteps    = []string{"degraded: ", "copies were made again", "has all copies again"} // of what is in memory, after a loss
)

// moment waits for a step of the job, or for a while. At a step the head and the victims stand still until the blow
// has fallen.
func (s *storm) moment(victims []string, number int, b blow) string {
	steps := checkpointSteps
	switch {
	case number == 0:
		steps = startSteps
	case s.again && s.policy != "":
		steps = slices.Concat(restartSteps, protectSteps)
	case s.again:
		steps = restartSteps
	case s.copied:
		steps = slices.Concat(checkpointSteps, copySteps)
	}
	if s.rng.IntN(4) == 0 {
		s.wait(1000)
		return "after a while"
	}
	steady := !s.again && number != 0
	if steady {
		s.mark = s.now()
	}
	if steady && s.cr == "native" && s.rng.IntN(2) == 0 {
		steps = moveSteps
		s.moves(victims[0])
	}
	text := steps[s.rng.IntN(len(steps))]
	s.until(6*time.Second, text, "moved:", "no move")
	if b.stops {
		return text
	}
	s.still = append([]string{s.head}, victims...)
	for _, n := range s.still {
		s.c.Still(n, true)
	}
	return text
}

// moves moves a rank, to the victim or to another node. It may be refused, or fail: all go on then.
func (s *storm) moves(victim string) {
	to := victim
	if healthy := s.healthy(); s.rng.IntN(2) == 0 {
		to = healthy[s.rng.IntN(len(healthy))]
	}
	cmd := s.c.Command(s.head, s.c.file("gorun"), "migrate", s.j.id(), "-ranks", strconv.Itoa(s.rng.IntN(4)), "-to", to)
	if err := cmd.Start(); err != nil {
		s.c.t.Fatal(err)
	}
	s.moving = append(s.moving, cmd)
}

// release lets go on who stands still for the blow alone.
func (s *storm) release(victims []string, b blow) {
	for _, n := range s.still {
		if !slices.Contains(s.off, n) && !(b.freezes && slices.Contains(victims, n)) {
			s.c.Still(n, false)
		}
	}
	s.still = nil
}

// phase is what the head has said last.
func (s *storm) phase() string {
	lines := strings.Split(strings.TrimSpace(s.said()), "\n")
	return lines[len(lines)-1]
}

func (s *storm) said() string { said, _ := s.j.said.now(); return said }
func (s *storm) now() int     { return len(s.said()) }

// wait lets a random time pass, up to so many milliseconds. It is for a random moment, not for a condition.
func (s *storm) wait(most int) {
	select {
	case <-s.j.over:
	case <-time.After(time.Duration(s.rng.IntN(most)) * time.Millisecond):
	}
}

// until waits until the head has said one of some things since the mark. It may never say so, if the node was of no
// use to it.
func (s *storm) until(most time.Duration, texts ...string) bool {
	limit := time.After(most)
	for {
		said, more := s.j.said.now()
		for _, text := range texts {
			if strings.Contains(said[s.mark:], text) {
				return true
			}
		}
		select {
		case <-more:
		case <-s.j.over:
			return false
		case <-limit:
			return false
		}
	}
}
