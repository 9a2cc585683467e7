package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Ranks move while the others stay in their processes. The result must be that of an undisturbed run.

// id is the job's.
func (j *job) id() string {
	j.await("ranks are up after")
	said, _ := j.said.now()
	return regexp.MustCompile(`job ([0-9a-f-]{36}): all`).FindStringSubmatch(said)[1]
}

// move has ranks move, which must succeed.
func (j *job) move(args ...string) string {
	j.c.t.Helper()
	return j.c.Exec("n1", append([]string{j.c.file("gorun"), "migrate", j.id()}, args...)...)
}

// pids are the processes of the ranks, as status tells, by rank: the host and the pid.
func (j *job) pids() map[string]string {
	at := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  (\d+) +pid (\d+) on (\w+),`).FindAllStringSubmatch(j.c.Exec("n1", j.c.file("gorun"), "status", j.id()), -1) {
		at[m[1]] = m[3] + " " + m[2]
	}
	return at
}

// finish ends a march, whose sum must be as wanted.
func (j *job) finish(end, want string) {
	j.c.t.Helper()
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		j.c.t.Fatal(err)
	}
	if got := j.c.sum(j.well()); got != want {
		said, _ := j.said.now()
		j.c.t.Errorf("sum %s, undisturbed %s\n%s", got, want, said)
	}
}

// moves moves one rank of 8 to a node with others, then all of a node to a spare, then takes a checkpoint, and has
// the node lose its power: nobody is there any more. A rank dies, and the job goes on where the ranks are then.
func (c *cluster) moves() {
	end := c.fresh("end")
	want := c.alone("8", "100")
	j := c.start("-v", "-hosts", "n1:3,n2:3,n3:3,n4:4", "-spares", "1", "-np", "8", "-restarts", "2", "-lease", "3s", "-cr=native",
		"-ckpt-dir", c.fresh("snapshots"), c.file("march"), "-end", end)
	before := j.pids()
	if out := j.move("-ranks", "4", "-to", "n3"); !strings.Contains(out, "rank 4 on n3") {
		c.t.Error(out)
	}
	for rank, p := range j.pids() {
		switch {
		case rank == "4" && !strings.HasPrefix(p, "n3 "):
			c.t.Errorf("rank 4 is %s", p)
		case rank != "4" && p != before[rank]:
			c.t.Errorf("rank %s was %s, and is %s", rank, before[rank], p)
		}
	}
	j.move("-off", "n2")
	for rank, p := range j.pids() {
		if strings.HasPrefix(p, "n2 ") {
			c.t.Errorf("rank %s is still on %s", rank, p)
		}
	}
	c.Exec("n1", c.file("gorun"), "checkpoint", j.id())
	c.Kill("n2")
	defer c.Start("n2")
	j.await("node n2 is lost")
	c.kill("n4", "/march")
	j.await("restarting from snapshot")
	j.await("ranks restored: 8")
	j.finish(end, want)
}

// movesLocal moves a rank whose image lies on the node that it leaves, and the one with standard input.
func (c *cluster) movesLocal() {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), "moves")
	want := c.alone("4", "100")
	j := c.jobAt(dir, "native", "n1:2,n2:2,n3:4", end, "-spares", "1")
	out := j.move("-ranks", "0,3")
	if !strings.Contains(out, "ranks 0,3 on n3") {
		c.t.Error(out)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if got := c.Exec(n, "sh", "-c", fmt.Sprintf("find %s -name '*.img' 2>/dev/null || true", dir)); got != "" {
			c.t.Errorf("%s has kept images of the move: %s", n, got)
		}
	}
	j.finish(end, want)
}

// targetDies: the node that is to take a rank loses its power before the ranks are up there. All go on as they were.
func (c *cluster) targetDies() {
	end := c.fresh("end")
	want := c.alone("4", "100")
	j := c.start("-v", "-hosts", "n1:2,n2:2,n3:2", "-spares", "1", "-np", "4", "-lease", "3s", "-cr=native",
		"-ckpt-dir", c.fresh("snapshots"), c.file("march"), "-end", end)
	before := j.pids()
	c.Rate("n3", "1mbit") // its image is on the way for a minute
	said := make(chan string)
	go func() {
		b, _ := c.Command("n1", c.file("gorun"), "migrate", j.id(), "-ranks", "1", "-to", "n3").CombinedOutput()
		said <- string(b)
	}()
	j.await("checkpoint: closing")
	c.Kill("n3")
	defer c.Start("n3")
	if out := <-said; !strings.Contains(out, "the ranks are where they were") {
		c.t.Errorf("the move: %s", out)
	}
	for rank, p := range j.pids() {
		if p != before[rank] {
			c.t.Errorf("rank %s was %s, and is %s", rank, before[rank], p)
		}
	}
	j.finish(end, want)
}
