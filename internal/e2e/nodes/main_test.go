package nodes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/nodelab"
)

// patience is for what takes a moment, on a machine that has other things to do.
const patience = time.Minute

// cluster is a lab with gorun and march in its shared folder.
type cluster struct {
	*nodelab.Lab
	t testing.TB
}

func newCluster(t testing.TB, nodes int, opts ...nodelab.Option) *cluster {
	c := &cluster{nodelab.Up(t, nodes, opts...), t}
	build(t, c.Shared())
	return c
}

// build builds gorun and march into a folder.
func build(t testing.TB, dir string) {
	for name, pkg := range programs {
		buildOne(t, dir, name, pkg)
	}
}

func buildOne(t testing.TB, dir, name, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, name), "github.com/gorun-mpi/gorun/"+pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
}

var programs = map[string]string{"gorun": "cmd/gorun", "march": "internal/e2e/nodes/march"}

// clusterOf is newCluster with programs that were built before.
func clusterOf(t testing.TB, built string, nodes int) *cluster {
	c := &cluster{nodelab.Up(t, nodes), t}
	for name := range programs {
		exe, err := os.ReadFile(filepath.Join(built, name))
		if err == nil {
			err = os.WriteFile(c.file(name), exe, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// part runs a part of a test, after which nothing may be left on any node.
func (c *cluster) part(name string, f func(*cluster)) {
	c.t.(*testing.T).Run(name, func(t *testing.T) {
		part := &cluster{c.Lab.In(t), t}
		f(part)
		part.spotless()
	})
}

// more is a part that is left out where time is short: others come near what it does.
func (c *cluster) more(name string, f func(*cluster)) {
	if testing.Short() {
		c.t.Logf("%s: skipped with -short", name)
		return
	}
	c.part(name, f)
}

// spotless waits until nothing of a job is left on any node, neither processes nor files.
func (c *cluster) spotless() {
	c.t.Helper()
	c.Idle(patience, c.Nodes()...)
	for _, n := range c.Nodes() {
		if left := c.Exec(n, "find", "/tmp", "/dev/shm", "-mindepth", "1"); left != "" {
			c.t.Errorf("left on %s: %s", n, left)
		}
	}
}

// file is a path in the shared folder.
func (c *cluster) file(name string) string { return filepath.Join(c.Shared(), name) }

// fresh is such a path of which there is no file.
func (c *cluster) fresh(name string) string {
	return c.file(strings.ReplaceAll(c.t.Name(), "/", "-") + "-" + name)
}

// job is a running gorun.
type job struct {
	c    *cluster
	node string
	cmd  *exec.Cmd
	out  bytes.Buffer
	said words
	over chan struct{}
	err  error
}

// words is what a command writes to its standard error.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next word
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	return w.text.Write(p)
}

func (w *words) now() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more == nil {
		w.more = make(chan struct{})
	}
	return w.text.String(), w.more
}

// start starts gorun on n1.
func (c *cluster) start(args ...string) *job {
	c.t.Helper()
	return c.startWith("", args...)
}

// startWith does the same with a standard input.
func (c *cluster) startWith(input string, args ...string) *job {
	c.t.Helper()
	return c.begin("n1", input, append([]string{c.file("gorun")}, args...)...)
}

// begin starts a gorun on any node, by a whole command line.
func (c *cluster) begin(node, input string, args ...string) *job {
	c.t.Helper()
	j := &job{c: c, node: node, cmd: c.Command(node, args...), over: make(chan struct{})}
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = strings.NewReader(input), &j.out, &j.said
	if err := j.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		j.err = j.cmd.Wait()
		close(j.over)
	}()
	c.t.Cleanup(func() { // a part that has failed leaves no job to the next
		select {
		case <-j.over:
		default:
			c.Command(node, "pkill", "-KILL", "-f", "shared/gorun ").Run() // the node may be off
			j.cmd.Process.Kill()
			<-j.over
		}
	})
	return j
}

// await waits until gorun has said something.
func (j *job) await(text string) {
	j.c.t.Helper()
	j.awaitTimes(text, 1)
}

// awaitTimes waits until gorun has said it so many times.
func (j *job) awaitTimes(text string, times int) {
	j.c.t.Helper()
	limit := time.After(patience)
	for {
		said, more := j.said.now()
		if strings.Count(said, text) >= times {
			return
		}
		select {
		case <-more:
		case <-j.over:
			if said, _ = j.said.now(); strings.Count(said, text) < times {
				j.c.t.Fatalf("gorun has ended (%v) and has not said %q:\n%s", j.err, text, said)
			}
			return
		case <-limit:
			j.c.t.Fatalf("gorun has not said %q:\n%s", text, said)
		}
	}
}

// end waits for the end of gorun, and returns its exit status and what it has said.
func (j *job) end() (status int, said string) {
	j.c.t.Helper()
	select {
	case <-j.over:
	case <-time.After(2 * patience):
		said, _ := j.said.now()
		j.c.t.Fatalf("gorun has not ended:\n%s", said)
	}
	said, _ = j.said.now()
	return j.cmd.ProcessState.ExitCode(), said
}

// stop stops gorun alone: what it has started goes on. nsenter, whose child it is, stops with it.
func (j *job) stop() {
	j.c.Command(j.node, "pkill", "-STOP", "-f", "--", `^[^ ]*shared/gorun `).Run()
	for stat := fmt.Sprintf("/proc/%d/stat", j.cmd.Process.Pid); ; {
		if b, err := os.ReadFile(stat); err != nil || strings.Contains(string(b), ") T ") || strings.Contains(string(b), ") Z ") {
			return
		}
	}
}

// goOn lets it go on. nsenter hands the signal on.
func (j *job) goOn() { j.cmd.Process.Signal(syscall.SIGCONT) }

// well waits for a good end and returns standard output.
func (j *job) well() string {
	j.c.t.Helper()
	if status, said := j.end(); status != 0 {
		j.c.t.Fatalf("status %d:\n%s", status, said)
	}
	return j.out.String()
}

// kill kills with SIGKILL what has a text in its command line on a node.
func (c *cluster) kill(node, text string) {
	c.t.Helper()
	c.Exec(node, "pkill", "-KILL", "-f", "--", regexp.QuoteMeta(text))
}

// sum is the result of a march.
func (c *cluster) sum(out string) string {
	c.t.Helper()
	m := regexp.MustCompile(`(?m)^sum ([0-9a-f]{16})$`).FindStringSubmatch(out)
	if m == nil {
		c.t.Fatalf("there is no sum:\n%s", out)
	}
	return m[1]
}

// alone is the sum of a march of so many ranks on one machine.
func (c *cluster) alone(np, steps string) string {
	c.t.Helper()
	return c.sum(c.start("-np", np, c.file("march"), "-steps", steps).well())
}
