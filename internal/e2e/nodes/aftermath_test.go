package nodes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// recover waits until the job is well: it has committed another checkpoint. If it has ended and had a reason, it goes
// on by hand.
func (s *storm) recover() {
	s.c.t.Helper()
	s.again = false
	for s.mark = s.now(); !s.until(patience, "checkpoint: committed"); {
		select {
		case <-s.j.over:
		default:
			s.c.t.Fatalf("the job does not go on:\n%s", s.said())
		}
		s.mayEnd()
		s.elsewhere()
	}
}

var (
	// tooFew is what a head says that has lost too many nodes: of a restart, when they are lost while it begins one, or when they do not come up.
	tooFew = regexp.MustCompile("not enough (nodes|slots)")
	// down is what it says of nodes that have not come up.
	down = regexp.MustCompile(`node n\d: (.* it was not up |the connection to its keeper has ended)`)
)

// mayEnd fails the test if the job has ended without a reason. One is that it has lost several nodes: by blows, or because the machine is so busy
// that a head or nodes stand still for longer than a lease.
func (s *storm) mayEnd() {
	s.c.t.Helper()
	said := s.said()
	life := said[max(strings.LastIndex(said, "ranks are up"), 0):]
	few := tooFew.MatchString(life) && (len(givenUp.FindAllString(life, -1))+len(down.FindAllString(life, -1)) > 1 || len(s.healthy()) < 3)
	if lost := s.local && strings.Contains(life, "does not answer"); !few && !lost { // images that are only on a node that is lost
		s.c.t.Fatalf("the job has ended, status %d:\n%s", s.j.cmd.ProcessState.ExitCode(), said)
	}
}

// elsewhere goes on with the job by hand, on another node, and lets the former head end.
func (s *storm) elsewhere() {
	s.c.t.Helper()
	var nodes []string
	for _, n := range s.c.Nodes() {
		if n != s.head && !slices.Contains(s.off, n) && !slices.Contains(s.side, n) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < 4 {
		for _, n := range s.off {
			s.c.Start(n)
			nodes = append(nodes, n)
		}
		s.off = nil
	}
	s.rng.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
	former := *s
	s.olds, s.head, s.hosts, s.mark = append(s.olds, s.j), nodes[0], slices.Sorted(slices.Values(nodes)), 0
	s.c.t.Logf("gorun restart on %s", s.head)
	for tries := 1; !s.goesOn(); tries++ { // on a machine that is very busy nodes fall silent
		// The only snapshot, by the former head, which stands still, or what that has in memory alone: it goes on itself.
		said := s.said()
		if strings.Contains(said, "is being removed") && !strings.Contains(said, "passed over for an older") || s.inMemory(said) && former.j.goingOn() {
			s.c.Still(former.head, false)
			if s.stopped != nil {
				s.stopped.goOn()
			}
			s.j, s.head, s.hosts, s.mark = former.j, former.head, former.hosts, 0
			return
		}
		if tries == 3 || !tooFew.MatchString(s.said()) {
			s.c.t.Fatalf("the restart has not come up:\n%s", s.said())
		}
		s.olds, s.mark = append(s.olds, s.j), 0
	}
}

// goesOn starts gorun restart, or the job from its beginning if it has ended before there was a snapshot, or if its images are on nodes
// that are off or were in memory alone. It reports whether all ranks are up.
func (s *storm) goesOn() bool {
	if found, _ := filepath.Glob(filepath.Join(s.snaps, "*", "*", "schema.toml")); len(found) > 0 {
		s.j = s.c.begin(s.head, "", append(s.flags(s.c.file("gorun"), "restart"), "latest")...)
		if s.until(patience, "ranks are up") {
			return true
		}
		away := s.local && strings.Contains(s.said(), "does not answer")
		if former := s.olds[len(s.olds)-1]; !away && (!s.inMemory(s.said()) || former.goingOn()) {
			return false
		}
		s.mark = 0
	}
	s.begin()
	return s.until(patience, "ranks are up")
}

// inMemory reports whether a restart has said that all snapshots were in memory alone.
func (s *storm) inMemory(said string) bool {
	return s.policy != "" && (strings.Contains(said, "no such snapshot") || strings.Contains(said, "was in the memory of a job that is over"))
}

// goingOn reports whether a gorun has not ended. It may stand still.
func (j *job) goingOn() bool {
	select {
	case <-j.over:
		return false
	default:
		return true
	}
}

// restock stops a job that has few nodes left, and goes on with it on all.
func (s *storm) restock() {
	for s.recover(); s.j.goingOn(); { // a checkpoint that fails is none
		if s.c.Command(s.head, s.c.file("gorun"), "checkpoint", "-stop").Run() != nil && s.j.goingOn() {
			s.recover()
		} else if status, _ := s.j.end(); status != 75 {
			s.mayEnd()
		}
	}
	s.elsewhere()
	s.recover()
}

// lives reads what ranks have logged: no life writes when another has begun after it.
func (s *storm) lives() {
	s.c.t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.c.t.Fatal(err)
	}
	seen, last := map[string]bool{}, ""
	said := map[string]bool{} // ranks that have written in the last life
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		life, rank := f[0], f[1]
		switch {
		case life == last:
			said[rank] = true
		case !seen[life]:
			seen[life], last, said = true, life, map[string]bool{rank: true}
		case s.cr == "native" && !said[rank]:
			said[rank] = true // it was imaged in the middle of writing
		default:
			s.c.t.Errorf("life %s wrote after %s had begun: %s\n%s", life, last, line, s.said())
			return
		}
	}
	s.c.t.Logf("%d lives", len(seen))
}

// repair makes all nodes whole.
func (s *storm) repair() {
	for _, j := range s.olds {
		j.end()
	}
	for _, n := range s.off {
		s.c.Start(n)
	}
	if len(s.olds) > 0 {
		for _, n := range s.c.Nodes() {
			s.signal(n, "KILL", "^sshd: root@|^sshd-session: root@") // that have not heard that their client is gone
		}
	}
}
