package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPods plays the pods of a Kubernetes Indexed Job named heat on three nodes: n1 is heat-0.
func TestPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.Exec("n1", "hostname", "heat-0")
	if err := os.WriteFile(c.file("token"), []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.more("late name", (*cluster).lateName)
	c.part("all at once", (*cluster).allAtOnce)
	c.part("pod replaced", (*cluster).podReplaced)
	c.part("head replaced", (*cluster).headReplaced)
	c.more("other Secret", (*cluster).otherSecret)
	c.more("no head", (*cluster).noHead)
}

// environment is what the pods' template sets.
func (c *cluster) environment() []string {
	return []string{"GORUN_HEAD=heat-0.mesh", "GORUN_NODES=3", "GORUN_SLOTS=2", "GORUN_TOKEN_FILE=" + c.file("token")}
}

// pod starts gorun as a pod does. Its index is that of its node.
func (c *cluster) pod(index int, args ...string) *job {
	c.t.Helper()
	all := append([]string{"env", fmt.Sprint("JOB_COMPLETION_INDEX=", index)}, c.environment()...)
	return c.begin(fmt.Sprint("n", index+1), "", append(append(all, c.file("gorun")), args...)...)
}

// pods starts all of them, the head last.
func (c *cluster) pods(args ...string) (head *job, others []*job) {
	c.t.Helper()
	c.name()
	for index := 2; index > 0; index-- {
		others = append(others, c.pod(index, args...))
	}
	return c.pod(0, args...), others
}

// name gives the head's name to the cluster's name service, once.
func (c *cluster) name() {
	c.t.Helper()
	path := filepath.Join(filepath.Dir(c.Shared()), "etc", "hosts")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "heat-0.mesh") {
		f.Close()
		return
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s heat-0.mesh\n", c.Address("n1", 0)); err != nil {
		c.t.Fatal(err)
	}
}

// lateName: the pods call a name that is not there yet, of a head that is not there yet.
func (c *cluster) lateName() {
	want := c.alone("6", "20")
	args := []string{"-np", "6", c.file("march"), "-steps", "20"}
	var others []*job
	for _, index := range []int{2, 1} {
		j := c.pod(index, args...)
		j.await("calls heat-0.mesh:7770 until the head answers")
		others = append(others, j)
	}
	head := c.pod(0, args...)
	c.name()
	if out := head.well(); c.sum(out) != want || !strings.Contains(out, "nodes heat-0 heat-0 n2 n2 n3 n3\n") {
		c.t.Errorf("%s, on one machine %s", out, want)
	}
	for _, j := range others {
		j.well()
	}
}

// allAtOnce: one command line for all.
func (c *cluster) allAtOnce() {
	c.name()
	out := c.fresh("out")
	script := fmt.Sprintf("exec %s -np 6 %s -steps 20 >%s-$JOB_COMPLETION_INDEX", c.file("gorun"), c.file("march"), out)
	if err := c.Do(append(append([]string{"all", "env"}, c.environment()...), "sh", "-c", script)...); err != nil {
		c.t.Fatal(err)
	}
	text, err := os.ReadFile(out + "-0")
	if err != nil || c.sum(string(text)) != c.alone("6", "20") {
		c.t.Errorf("%v: %s", err, text)
	}
}

// podReplaced: a pod dies, another comes in its place, and has its ranks when the old one is fenced.
func (c *cluster) podReplaced() {
	end := c.fresh("end")
	args := []string{"-v", "-np", "6", "-lease", "3s", "-restarts", "1", "-cr=self", "-ckpt-dir", c.fresh("snapshots"), "-ckpt-every", "200ms",
		c.file("march"), "-steps", "200", "-end", end}
	head, others := c.pods(args...)
	head.await("checkpoint: committed")
	c.kill("n3", "shared/gorun -v")
	others[0].end()
	head.await("node heat-2 is lost")
	others[0] = c.pod(2, args...)
	head.await("node heat-2 is there again")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if out := head.well(); c.sum(out) != c.alone("6", "200") || !strings.Contains(out, "nodes heat-0 heat-0 n2 n2 n3 n3\n") {
		c.t.Errorf("%s", out)
	}
	for _, j := range others {
		j.well()
	}
}

// headReplaced: pod 0 is told to leave, and takes a checkpoint. The pod that replaces it goes on from
// there, with the others, which have waited. So it does after one that could not say goodbye.
func (c *cluster) headReplaced() {
	end, snaps := c.fresh("end"), c.fresh("snapshots")
	args := []string{"-v", "-restart-latest", "-np", "6", "-lease", "3s", "-cr=self", "-ckpt-dir", snaps, "-ckpt-on-signal", "TERM",
		c.file("march"), "-steps", "200", "-end", end}
	head, others := c.pods(args...)
	head.await("all 6 ranks are up")
	c.Exec("n1", "pkill", "-TERM", "-f", "--", "shared/gorun -v")
	if status, said := head.end(); status != 75 {
		c.t.Fatalf("status %d:\n%s", status, said)
	}
	head = c.pod(0, args...)
	head.await("all 6 ranks are up")
	c.kill("n1", "shared/gorun -v")
	head.end()
	for _, j := range others {
		j.await("the connection to the head has ended: EOF: calls again")
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	head = c.pod(0, args...)
	if out := head.well(); c.sum(out) != c.alone("6", "200") {
		c.t.Errorf("%s", out)
	}
	for _, j := range others {
		j.well()
	}
}

// otherSecret: a pod that does not know the Secret, or has none, is told so.
func (c *cluster) otherSecret() {
	for change, want := range map[string]string{"GORUN_TOKEN_FILE=": "mount one", "GORUN_NODES=1": "JOB_COMPLETION_INDEX", "GORUN_TOKEN=x": "two"} {
		cmd := append(append([]string{"env", "JOB_COMPLETION_INDEX=1"}, c.environment()...), change, c.file("gorun"), "true")
		if status, said := c.begin("n2", "", cmd...).end(); status != 2 || !strings.Contains(said, want) {
			c.t.Errorf("%s: status %d: %s", change, status, said)
		}
	}
}

// noHead: a pod that waits for a head that never comes ends when it is told to.
func (c *cluster) noHead() {
	j := c.pod(1, "true")
	j.await("calls heat-0.mesh:7770")
	c.Exec("n2", "pkill", "-TERM", "-f", "--", "shared/gorun true")
	if status, said := j.end(); status != 1 || !strings.Contains(said, "ended by SIGTERM") {
		c.t.Errorf("status %d: %s", status, said)
	}
}
