package nodes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/nodelab"
)

// TestNodes runs jobs over four nodes, which are on two networks.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, nodelab.Networks(2))
	c.part("sum", (*cluster).sums)
	c.part("errors", (*cluster).errors)
	c.more("copied", (*cluster).copied)
	c.part("stdio and status", (*cluster).stdio)
	c.part("commands", (*cluster).commands)
	c.part("restart elsewhere, native", func(c *cluster) { c.elsewhere("native") })
	c.more("restart elsewhere, self", func(c *cluster) { c.elsewhere("self") })
	for _, v := range victims {
		c.part("kill "+v.name, func(c *cluster) { c.kills(v) })
	}
	c.part("firewall", (*cluster).firewall)
	c.part("cut off", (*cluster).cutOff)
	c.part("power cut", (*cluster).powerCut)
	c.part("stands still", (*cluster).standsStill)
	c.part("short cut", (*cluster).shortCut)
	c.part("join", (*cluster).joins)
	c.part("move", (*cluster).moves)
	c.more("move reverts", (*cluster).targetDies)
	c.part("head without power", (*cluster).headWithoutPower)
	c.more("head stopped", (*cluster).headStopped)
	c.part("networks", (*cluster).networks)
	c.more("detour", (*cluster).detour)
	c.part("pair cut", (*cluster).pairCut)
}

// sums: ranks on four nodes compute what they do on one.
func (c *cluster) sums() {
	want := c.alone("8", "20")
	for policy, nodes := range map[string]string{"slot": "n1 n1 n2 n2 n3 n3 n4 n4", "node": "n1 n2 n3 n4 n1 n2 n3 n4"} {
		out := c.start("-hosts", "n1:2,n2:2,n3:2,n4:2", "-map", policy, "-np", "8", c.file("march"), "-steps", "20").well()
		if got := c.sum(out); got != want {
			c.t.Errorf("-map %s: sum %s, on one machine %s", policy, got, want)
		}
		if !strings.Contains(out, "nodes "+nodes+"\n") {
			c.t.Errorf("-map %s: %s", policy, out)
		}
	}
	// One rank for each mention.
	if out := strings.Fields(c.start("-hosts", "n1,n2,n3", "hostname").well()); len(out) != 3 || !slices.Contains(out, "n1") || !slices.Contains(out, "n2") || !slices.Contains(out, "n3") {
		c.t.Errorf("without -np: %q", out)
	}
	// Without the head's own node, by a file.
	file := c.fresh("hosts")
	if err := os.WriteFile(file, []byte("# two\nn2 slots=4\nn3:4\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := c.start("-hostfile", file, "-np", "8", c.file("march"), "-steps", "20").well(); c.sum(out) != want {
		c.t.Errorf("-hostfile: %s", out)
	}
}

// errors: a node that cannot be used is named, with the remedy, or a spare takes its place.
func (c *cluster) errors() {
	for _, v := range []struct{ hosts, want string }{
		{"n1,nowhere.invalid", "node nowhere.invalid: there is no host of that name"},
		{"n1,n2,n2.lab", "node n2.lab: it is the machine that is also named n2"},
		{"n2:1,n3:1", "not enough slots"},
	} {
		status, said := c.start("-hosts", v.hosts, "-np", "3", "true").end()
		if status != 1 || !strings.Contains(said, v.want) {
			c.t.Errorf("%s: status %d: %s", v.hosts, status, said)
		}
	}
	// A folder of the node's own is no place for snapshots.
	if status, said := c.start("-hosts", "n1:1,n2:1", "-np", "2", "-cr", "-ckpt-dir", filepath.Join(c.Local(), "snapshots"), "true").end(); status != 1 ||
		!strings.Contains(said, "node n2: it does not see the folder for snapshots") || !strings.Contains(said, "-ckpt-local") {
		c.t.Errorf("snapshots that are not shared: status %d: %s", status, said)
	}
	j := c.start("-hosts", "n2:1,nowhere.invalid:1,n3:1", "-spares", "1", "-np", "2", "hostname")
	if status, said := j.end(); status != 0 || !strings.Contains(said, "nowhere.invalid") {
		c.t.Errorf("with a spare: status %d: %s", status, said)
	}
	if status, said := c.start("-hosts", "n2", "-np", "2", "/no/such/program").end(); status != 127 {
		c.t.Errorf("no program: status %d: %s", status, said)
	}
}

// copied: gorun and the program need not be on the other nodes.
func (c *cluster) copied() {
	for _, name := range []string{"gorun", "march"} {
		c.Exec("n1", "cp", c.file(name), filepath.Join(c.Local(), name))
	}
	for range 2 { // the second time the copy of gorun is there
		cmd := c.Command("n1", filepath.Join(c.Local(), "gorun"), "-hosts", "n1:2,n2:2,n3:2", "-np", "6", filepath.Join(c.Local(), "march"), "-steps", "5")
		out, err := cmd.Output()
		if err != nil {
			c.t.Fatalf("%v", err)
		}
		if want := c.alone("6", "5"); c.sum(string(out)) != want {
			c.t.Errorf("%s, on one machine %s", out, want)
		}
	}
}

// stdio: standard input reaches rank 0, wherever it is, all output comes back, and statuses do.
func (c *cluster) stdio() {
	j := c.startWith("one\ntwo\n", "-hosts", "n3:1,n2:1", "-np", "2", "sh", "-c", "cat; hostname")
	if out := strings.Fields(j.well()); !slices.Contains(out, "one") || !slices.Contains(out, "two") || !slices.Contains(out, "n2") || !slices.Contains(out, "n3") {
		c.t.Errorf("output %q", out)
	}
	if status, said := c.start("-hosts", "n3:1,n2:1", "-np", "2", c.file("march"), "-steps", "2", "-exit", "7").end(); status != 7 {
		c.t.Errorf("a rank exits with 7: status %d: %s", status, said)
	}
	// A node's own variables are its own.
	out := c.start("-hosts", "n3:1", "-env", "TMPDIR=/mine", "sh", "-c", "echo $SSH_CONNECTION, $TMPDIR").well()
	if !strings.Contains(out, c.Address("n1", 0)+" ") || !strings.Contains(out, ", /mine") {
		c.t.Errorf("variables: %s", out)
	}
}

// commands: ps, status, signals and kill.
func (c *cluster) commands() {
	id := c.fresh("id")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", "-jobid-file", id, c.file("march"), "-end", "/nowhere")
	j.await("all 3 ranks are up")
	for _, args := range [][]string{{"ps"}, {"status"}} {
		if out := c.Exec("n1", append([]string{c.file("gorun")}, args...)...); !strings.Contains(out, "running") {
			c.t.Errorf("%s: %s", args, out)
		}
	}
	if out := c.Exec("n1", c.file("gorun"), "status"); !regexp.MustCompile(`n3 +up, \d+ CPUs, rank 2`).MatchString(out) {
		c.t.Errorf("status tells nothing of nodes:\n%s", out)
	}
	job, err := os.ReadFile(id)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Exec("n1", c.file("gorun"), "kill", strings.TrimSpace(string(job)))
	if status, said := j.end(); status != 143 {
		c.t.Errorf("after kill: status %d: %s", status, said)
	}
	j = c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", c.file("march"), "-end", "/nowhere")
	j.await("all 3 ranks are up")
	c.Exec("n1", "pkill", "-INT", "-f", "--", "shared/gorun -v")
	if status, said := j.end(); status != 130 {
		c.t.Errorf("after ^C: status %d: %s", status, said)
	}
}

// elsewhere: a job goes on from a snapshot on other nodes.
func (c *cluster) elsewhere(cr string) {
	end, snaps := c.fresh("end"), c.fresh("snapshots")
	want := c.alone("4", "100")
	j := c.start("-v", "-hosts", "n1:2,n2:2", "-np", "4", "-cr="+cr, "-ckpt-dir", snaps, c.file("march"), "-end", end)
	j.await("all 4 ranks are up")
	schema := strings.TrimSpace(c.Exec("n1", c.file("gorun"), "checkpoint", "-stop"))
	if status, said := j.end(); status != 75 {
		c.t.Fatalf("checkpoint -stop: status %d: %s", status, said)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	out := c.start("restart", "-hosts", "n3:2,n4:2", schema).well()
	if c.sum(out) != want {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
}

// victim is a process that is killed.
type victim struct {
	name       string
	node, text string
	status     int
	says       string
}

var victims = []victim{
	{"rank", "n2", "/march", 137, "killed by signal 9"},
	{"agent", "n2", "__agent ", 1, "agent 1 on n2"},
	{"keeper", "n2", "gorun __keeper", 1, "node n2 is lost"},
	{"head", "n1", "shared/gorun -v", -1, ""},
	{"client of ssh", "n1", "-- n2 /bin/sh", 0, ""}, // the keeper lives on
}

// kills: whatever is killed, the job ends and nothing is left on any node.
func (c *cluster) kills(v victim) {
	end := c.fresh("end")
	j := c.start("-v", "-hosts", "n1:2,n2:2,n3:2", "-np", "6", "-lease", "3s", c.file("march"), "-end", end)
	j.await("all 6 ranks are up")
	c.kill(v.node, v.text)
	if v.status == 0 {
		if err := os.WriteFile(end, nil, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	if status, said := j.end(); status != v.status || !strings.Contains(said, v.says) {
		c.t.Errorf("status %d:\n%s", status, said)
	}
	if v.name == "head" { // its control folder is for the next gorun to remove
		c.Exec("n1", c.file("gorun"), "ps")
	}
}

// firewall: where keepers and agents cannot call home they go through ssh.
func (c *cluster) firewall() {
	c.Exec("n1", "nft", "add table inet f; add chain inet f in { type filter hook input priority 0; }; "+
		"add rule inet f in iifname != lo tcp flags & (syn | ack) == syn tcp dport != 22 drop")
	defer c.Exec("n1", "nft", "delete table inet f")
	j := c.start("-v", "-hosts", "n2:1,n3:1", "-np", "2", c.file("march"), "-steps", "5")
	out := j.well()
	if _, said := j.end(); c.sum(out) != c.alone("2", "5") || !strings.Contains(said, "goes through ssh") {
		c.t.Errorf("%s\n%s", out, said)
	}
}

// cutOff: ranks of a node that the head cannot reach end before their successors begin, although
// they could still write. What healing brings back is nobody.
func (c *cluster) cutOff() {
	c.survives(func() { c.Partition([]string{"n2"}, nil) }, func() { c.Heal() })
}

// powerCut: the same for a node without power.
func (c *cluster) powerCut() {
	c.survives(func() { c.Kill("n2") }, func() { c.Start("n2") })
}

// standsStill: the same for a node that stands still and comes back when its ranks run elsewhere.
func (c *cluster) standsStill() {
	c.survives(func() { c.Pause("n2") }, func() { c.Resume("n2") })
}

// shortCut: nothing happens to a job whose network was cut for a moment.
func (c *cluster) shortCut() {
	end := c.fresh("end")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", c.file("march"), "-steps", "50", "-end", end)
	j.await("all 3 ranks are up")
	c.Partition([]string{"n2"}, nil)
	j.await("node n2 is silent")
	c.Heal()
	j.await("node n2 has renewed its lease again")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := j.well(); c.sum(out) != c.alone("3", "50") {
		c.t.Error(out)
	}
}

// headWithoutPower: when the head's node is gone, all that is its job's ends on the others. A restart
// there, begun at once, waits for that.
func (c *cluster) headWithoutPower() {
	end, log, snaps := c.fresh("end"), c.fresh("log"), c.fresh("snapshots")
	want := c.alone("3", "400")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", "-lease", "3s", "-cr=self", "-ckpt-dir", snaps, "-ckpt-every", "200ms",
		c.file("march"), "-steps", "400", "-end", end, "-log", log)
	j.await("checkpoint: committed")
	c.Kill("n1")
	again := c.begin("n2", "", c.file("gorun"), "restart", "-v", "-ckpt-dir", snaps, "-hosts", "n2:2,n3:1", "latest")
	again.await("all 3 ranks are up")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := again.well(); c.sum(out) != want {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
	c.lives(log, 2)
	if left, _ := filepath.Glob(filepath.Join(snaps, "*", "claim-*")); len(left) > 0 {
		c.t.Errorf("claims stay behind: %q", left)
	}
	j.end()
	for _, node := range []string{"n2", "n3"} {
		for begin := time.Now(); ; {
			left := slices.DeleteFunc(c.Processes(node), func(line string) bool {
				return strings.Contains(line, " sshd: ") // it has not heard that its client is gone
			})
			if len(left) == 0 {
				break
			}
			if time.Since(begin) > patience {
				c.t.Fatalf("left on %s: %q", node, left)
			}
		}
		c.Kill(node) // for that sshd
		c.Start(node)
	}
	c.Start("n1")
}

// headStopped: ranks on the head's own node end as well when it is stopped for longer than the lease, so that those
// of a restart elsewhere are alone. When it goes on it has lost the job.
func (c *cluster) headStopped() {
	end, log, snaps := c.fresh("end"), c.fresh("log"), c.fresh("snapshots")
	want := c.alone("3", "400")
	j := c.start("-v", "-hosts", "n1:2,n2:1", "-np", "3", "-lease", "3s", "-restarts", "9", "-cr=self", "-ckpt-dir", snaps, "-ckpt-every", "200ms",
		c.file("march"), "-steps", "400", "-end", end, "-log", log)
	j.await("checkpoint: committed")
	j.stop()
	again := c.begin("n3", "", c.file("gorun"), "restart", "-v", "-ckpt-dir", snaps, "-hosts", "n2:2,n3:1", "latest")
	again.await("all 3 ranks are up")
	j.goOn()
	if status, said := j.end(); status != 1 || !strings.Contains(said, "another gorun has taken the job over") && !tooFew.MatchString(said) {
		c.t.Errorf("the head that was stopped: status %d\n%s", status, said)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := again.well(); c.sum(out) != want {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
	c.lives(log, 2)
}

// survives: a job goes on after the loss of n2, on the spare, and its result is bit-identical. No
// rank of the old life writes after one of the new.
func (c *cluster) survives(lose, back func()) {
	end, log, snaps := c.fresh("end"), c.fresh("log"), c.fresh("snapshots")
	want := c.alone("4", "400")
	j := c.start("-v", "-hosts", "n1:2,n2:2,n3:2", "-np", "4", "-spares", "1", "-restarts", "1", "-lease", "3s",
		"-cr=self", "-ckpt-dir", snaps, "-ckpt-every", "200ms", c.file("march"), "-steps", "400", "-end", end, "-log", log)
	j.await("checkpoint: committed")
	lose()
	j.await("restarting from snapshot")
	back()
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	out := j.well()
	if c.sum(out) != want || !strings.Contains(out, "nodes n1 n1 n3 n3\n") {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
	c.lives(log, 2)
}

// joins: a node without power is given up, comes back and joins again, and a new one joins. The next loss, of a node
// that leaves in order, is answered by the one that came back.
func (c *cluster) joins() {
	end, log, snaps := c.fresh("end"), c.fresh("log"), c.fresh("snapshots")
	want := c.alone("4", "400")
	j := c.start("-v", "-hosts", "n1:2,n2:2,n3:2", "-np", "4", "-spares", "1", "-restarts", "2", "-lease", "3s",
		"-cr=self", "-ckpt-dir", snaps, "-ckpt-every", "200ms", c.file("march"), "-steps", "400", "-end", end, "-log", log)
	j.await("checkpoint: committed")
	c.Kill("n2")
	j.awaitTimes("all 4 ranks are up", 2)
	c.Start("n2")
	id := strings.TrimSpace(c.Exec("n1", "sh", "-c", c.file("gorun")+" ps | awk 'NR == 2 { print $1 }'"))
	if out, err := c.Command("n1", c.file("gorun"), "join", id, "-node", "n2", "-hosts", "n4:2").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "node n2 has joined") || !strings.Contains(string(out), "node n4 has joined") {
		c.t.Fatalf("gorun join: %v\n%s", err, out)
	}
	status := c.Exec("n1", c.file("gorun"), "status")
	if !regexp.MustCompile(`(?s)n2 +up, \d+ CPUs, a spare.*n3 +up, .*ranks 2-3.*n4 +up, \d+ CPUs, a spare`).MatchString(status) {
		c.t.Errorf("status:\n%s", status)
	}
	c.Exec("n3", "pkill", "-TERM", "-f", "--", "gorun __keeper") // as when the node shuts down
	j.await("node n3 leaves the job: its gorun was told to leave: ended by a signal: SIGTERM")
	j.awaitTimes("all 4 ranks are up", 3)
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := j.well(); c.sum(out) != want || !strings.Contains(out, "nodes n1 n1 n2 n2\n") {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
	c.lives(log, 3)
}

// lives reads what ranks have logged: so many lives, one after the other.
func (c *cluster) lives(log string, want int) {
	text, err := os.ReadFile(log)
	if err != nil {
		c.t.Fatal(err)
	}
	lives := map[string]bool{}
	last := ""
	for line := range strings.Lines(string(text)) {
		life, _, _ := strings.Cut(line, " ")
		if life != last && lives[life] {
			c.t.Fatalf("life %s wrote after %s had begun:\n%s", life, last, line)
		}
		lives[life], last = true, life
	}
	if len(lives) != want {
		c.t.Errorf("%d lives have written", len(lives))
	}
}
