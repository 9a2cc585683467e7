package nodes

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	lossNodes = 8 // four have a rank each, the others are spares, and each has two slots
	lossSteps = "50"
)

// storm is a job that loses nodes. It must hold
//
//   - that the result is that of an undisturbed run, bit for bit;
//   - that no two lives write at the same time;
//   - that nothing is left on any node;
//   - that the job goes on by itself, but where its head is harmed or has lost most of its nodes: then gorun restart
//     goes on with it, on another node;
//   - that a job with its images in memory goes on from a snapshot, where no more nodes were lost than its policy promises.
type storm struct {
	c       *cluster
	rng     *rand.Rand
	j       *job
	cr      string
	kept                // where images are
	head    string      // the node that the head is on
	off     []string    // nodes without power
	side    []string    // nodes on the head's side of a cut; nil: it has none
	hosts   []string    // of the present head
	still   []string    // nodes that stand until a blow has fallen
	olds    []*job      // former heads
	stopped *job        // the head that was stopped
	again   bool        // the last blow was not waited for
	moving  []*exec.Cmd // gorun migrate
	mark    int         // of what the job has said, the part that was read

	end, log, snaps string
}

// storm runs one job under blows.
func (c *cluster) storm(rng *rand.Rand, number int, memory bool, of []blow, want string) {
	s := &storm{c: c, rng: rng, head: "n1", end: c.fresh("end"), log: c.fresh("log"), snaps: c.fresh("snapshots")}
	s.cr, s.kept = keeps(number, memory)
	c.t.Logf("-cr=%s, %v", s.cr, s.kept)
	s.hosts = c.Nodes()
	s.begin()
	for i, b := range of {
		s.blow(b, i)
	}
	s.recover()
	if err := os.WriteFile(s.end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := s.j.well(); c.sum(out) != want {
		c.t.Errorf("%s, undisturbed %s\n%s", out, want, s.said())
	}
	for _, cmd := range s.moving { // a blow may have stopped it with the head
		cmd.Process.Kill()
		cmd.Wait()
	}
	s.lives()
	for _, j := range append(s.olds, s.j) {
		said, _ := j.said.now()
		if why := s.broken(said); why != "" {
			s.c.t.Errorf("%s:\n%s", why, said)
		}
	}
	s.repair()
}

// begin begins the job, on the present head.
func (s *storm) begin() {
	args := append(s.flags(s.c.file("gorun")), "-np", "4", "-cr="+s.cr, "-keep", "3")
	args = append(args, s.kept.flags(s)...)
	s.j = s.c.begin(s.head, "", append(args, s.c.file("march"), "-steps", lossSteps, "-end", s.end, "-log", s.log)...)
}

// flags completes a command line that runs gorun on the nodes that there are.
func (s *storm) flags(cmd ...string) []string {
	return append(cmd, "-v", "-hosts", strings.Join(s.hosts, ":2,")+":2", "-map", "node", "-spares", strconv.Itoa(max(len(s.hosts)-4, 0)), "-shrink-to-fit",
		"-restarts", "50", "-lease", "3s", "-param", "tcp.suspect=500ms", "-ckpt-dir", s.snaps, "-ckpt-every", s.every(), "-ssh", "ssh -o KexAlgorithms=curve25519-sha256")
}

// blow does one thing to the job, and waits until it is well again, or lets the next blow meet its restart.
func (s *storm) blow(b blow, number int) {
	victims, ok := s.victims(b.nodes)
	if !ok {
		s.c.t.Fatalf("%s: too few nodes are left", b.name)
	}
	if b.nodes != 1 && number == 0 {
		s.recover() // or there is nothing to go on from
		number = -1
	}
	at := s.moment(victims, number, b)
	s.c.t.Logf("%d. %s: %s %.60q: %s %s", number, strings.Join(victims, ", "), at, s.phase(), b.name, b.until)
	s.mark = s.now()
	b.strike(s, victims)
	s.release(victims, b)
	switch b.until {
	case moment:
		s.wait(1500)
	case lost:
		s.until(10*time.Second, "is lost", "restarting from", "; without")
	case anew:
		if b.nodes > 0 {
			s.until(20*time.Second, "restarting from", "; without")
			s.mark = s.now()
			s.until(20*time.Second, "ranks are up")
		}
	}
	if b.givesUp {
		s.j.end()
	}
	if b.takes {
		s.elsewhere()
	}
	if b.outlasts {
		s.until(10*time.Second, "is lost")
		s.recover()
	}
	if b.back != nil {
		b.back(s, victims)
		s.side = nil
	}
	if s.again = b.nodes == 1 && b.until >= lost && s.rng.IntN(2) == 0; !s.again {
		s.recover()
	}
}

// victims draws nodes that the job has not given up; with 0 it is the head's.
func (s *storm) victims(n int) (v []string, ok bool) {
	if n == 0 {
		return []string{s.head}, true
	}
	others := func() []string { return slices.DeleteFunc(s.healthy(), func(x string) bool { return x == s.head }) }
	left := others()
	for tries := 0; len(left) < n+1 && tries < 3; tries++ { // the head needs one
		s.restock()
		left = others()
	}
	s.rng.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
	return left[:min(n, len(left))], len(left) > n
}

var givenUp = regexp.MustCompile(`node (n\d) is lost|without (n\d)(?:, (n\d))*(?:, (n\d))* from now on`)

// healthy are the nodes that the present head has not given up.
func (s *storm) healthy() []string {
	healthy := slices.Clone(s.hosts)
	for _, m := range givenUp.FindAllStringSubmatch(s.said(), -1) {
		healthy = slices.DeleteFunc(healthy, func(n string) bool { return slices.Contains(m[1:], n) })
	}
	return slices.DeleteFunc(healthy, func(n string) bool { return slices.Contains(s.off, n) })
}

// signal sends a signal to the processes of a node whose command lines match.
func (s *storm) signal(node, sig, pattern string) {
	s.c.Command(node, "pkill", "-"+sig, "-f", "--", pattern).Run() // there may be none
}
