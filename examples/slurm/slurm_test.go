// Package slurm tests the scripts beside it with a real Slurm.
package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/nodelab"
)

// cluster is a lab with Slurm, in which gorun and a program are installed.
type cluster struct {
	*nodelab.Lab
	t   *testing.T
	bin string
}

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{Lab: nodelab.Up(t, nodes), t: t}
	c.Slurm("SLURMD_TIMEOUT=10")
	c.bin = filepath.Join(c.Shared(), "bin")
	for _, name := range []string{"cmd/gorun", "examples/solver"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(c.bin, filepath.Base(name)), "github.com/gorun-mpi/gorun/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return c
}

// job is a batch job.
type job struct {
	c           *cluster
	id          string
	name        string
	iters       string
	snapshots   string // its own folder
	out, upFile string
}

// submit submits a script that runs the solver, with options of sbatch and flags of gorun. Slurm's options on the
// command line go before those of the script.
func (c *cluster) submit(name, iters string, options []string, flags ...string) *job {
	c.t.Helper()
	script, err := filepath.Abs(name + ".sh")
	if err != nil {
		c.t.Fatal(err)
	}
	j := &job{c: c, name: name, iters: iters}
	base := filepath.Join(c.Shared(), name+"-"+iters)
	j.snapshots, j.out, j.upFile = base+".snapshots", base+".out", base+".up"
	args := []string{"env", "PATH=" + c.bin + ":" + os.Getenv("PATH"), "GORUN_CKPT_DIR=" + j.snapshots, "sbatch", "--parsable", "-o", j.out}
	args = append(append(args, options...), script, "-jobid-file", j.upFile)
	args = append(append(args, flags...), "solver", "-poisson", "8", "-tol", "0", "-iters", iters, "-slow", "30ms")
	j.id = strings.TrimSpace(c.Exec("n1", args...))
	return j
}

// said is what the job has printed so far.
func (j *job) said() string {
	text, _ := os.ReadFile(j.out)
	return string(text)
}

// until waits for a condition; patience is for machines that are very busy. Most conditions are a question to Slurm, which takes time of its own.
func (j *job) until(what string, is func() bool) {
	j.c.t.Helper()
	for end := time.Now().Add(4 * time.Minute); !is(); <-time.After(300 * time.Millisecond) {
		if time.Now().After(end) {
			j.c.t.Fatalf("%s: not %s\n%s\n%s", j.name, what, j.said(), j.c.Exec("n1", "scontrol", "show", "job", j.id))
		}
	}
}

// up waits until all ranks are up.
func (j *job) up() {
	j.c.t.Helper()
	j.until("up", func() bool { st, err := os.Stat(j.upFile); return err == nil && st.Size() > 0 })
}

// checkpointed waits until there is a snapshot.
func (j *job) checkpointed() {
	j.c.t.Helper()
	j.until("checkpointed", func() bool {
		found, _ := filepath.Glob(filepath.Join(j.snapshots, "*", "*", "schema.toml"))
		return len(found) > 0
	})
}

// ended waits until Slurm says that the job has completed, checks its result, and that it has gone on so many
// times instead of beginning anew.
func (j *job) ended(atLeast int) {
	t := j.c.t
	t.Helper()
	state := ""
	j.until("ended", func() bool {
		state = strings.TrimSpace(j.c.Exec("n1", "squeue", "-h", "-t", "all", "-j", j.id, "-o", "%T"))
		switch state {
		case "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED":
			return true
		}
		return false
	})
	said := j.said()
	if state != "COMPLETED" {
		t.Fatalf("%s: %s\n%s", j.name, state, said)
	}
	if begun, on := strings.Count(said, "the job begins: "), strings.Count(said, "goes on from snapshot "); begun != 1 || on < atLeast {
		t.Errorf("%s: began %d times and went on %d times\n%s", j.name, begun, on, said)
	}
	want, err := exec.Command(filepath.Join(j.c.bin, "solver"), "-poisson", "8", "-tol", "0", "-iters", j.iters).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := result.FindAllString(said, -1); len(got) != 1 || got[0] != strings.TrimSpace(string(want)) {
		t.Errorf("%s: %q, undisturbed %s", j.name, got, want)
	}
}

var result = regexp.MustCompile(`(?m)^result .*$`)

// TestScripts submits the three scripts side by side, on nodes of their own: a time limit that comes too early, a
// more urgent job, a node that loses power, and the node of a script that does. Each job goes on where it was, with the undisturbed result.
func TestScripts(t *testing.T) {
	c := newCluster(t, 9)
	two := "--ntasks-per-node=2"
	limit := c.submit("time-limit", "1000", []string{"-w", "n[1-2]", two, "--time=1", "--signal=B:USR1@50"})
	preempted := c.submit("preempted", "400", []string{"-w", "n[3-4]", two})
	failing := c.submit("node-failure", "700", []string{"-w", "n[5-7]", two}, "-ckpt-every", "1s", "-lease", "5s")

	headless := c.submit("node-failure", "600", []string{"-w", "n[8-9]", "--nodes=2", two}, "-ckpt-every", "1s", "-lease", "5s", "-spares", "0")

	headless.checkpointed()
	c.Kill("n8")
	preempted.up()
	c.Exec("n1", "sbatch", "-p", "urgent", "-w", "n4", "--exclusive", "-o", "/dev/null", "--wrap", "true")
	failing.checkpointed()
	c.Kill("n6")

	failing.ended(0)
	if said := failing.said(); !strings.Contains(said, "node n6 is lost") || !strings.Contains(said, "restarting from snapshot") {
		t.Errorf("node-failure: %s", said)
	}
	preempted.ended(1)
	headless.until("queued again", func() bool {
		return strings.TrimSpace(c.Exec("n1", "squeue", "-h", "-t", "all", "-j", headless.id, "-o", "%T")) == "PENDING"
	})
	c.SlurmRepair("n8")
	headless.ended(1)
	limit.ended(1)
}
