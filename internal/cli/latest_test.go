package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// again runs the line of a script: it begins the job or goes on with it, until it is checkpointed and stopped. It
// returns what gorun said.
func (h *house) again(args ...string) string {
	h.t.Helper()
	p, id := h.countJob(limit, append([]string{"-restart-latest"}, args...)...)
	h.must("checkpoint", "-stop", id)
	if code := p.code(); code != 75 {
		h.t.Fatalf("stopped: exit %d, %s", code, p.err)
	}
	h.nothingLeft()
	return p.err.String()
}

const (
	begins = "the job begins: there is no snapshot of an unfinished one"
	goesOn = "goes on from snapshot "
)

// TestRestartLatest: the same line begins a job and goes on with it. Another name, other arguments or another
// folder make another job, and so does the end of the first.
func TestRestartLatest(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, begins + " with this program"},
		{nil, goesOn + "1,"},
		{nil, goesOn + "2,"},
		{[]string{"-name", "other"}, begins + " named other with"},
		{[]string{"-name", "other"}, goesOn + "1,"}, // older than those of the first
		{[]string{"-cr=self", "-name", "other"}, goesOn + "2,"},
	} {
		if said := h.again(c.args...); !strings.Contains(said, c.says) {
			t.Fatalf("%v: %s\nwant %s", c.args, said, c.says)
		}
	}
	if _, errs, code := h.gorun("-np", "3", "-cr", "-restart-latest", self(t), asRank, "count", "1"); code != 0 || !strings.Contains(errs, begins) {
		t.Errorf("other arguments: exit %d, %s", code, errs)
	}
	if _, errs, code := h.gorun("-np", "2", "-cr", "-restart-latest", self(t), asRank, "count", fmt.Sprint(limit)); code != 2 || !strings.Contains(errs, "each rank has saved one of its own") {
		t.Errorf("other ranks: exit %d, %s", code, errs)
	}
	t.Chdir(t.TempDir())
	if said := h.again(); !strings.Contains(said, begins) {
		t.Errorf("another folder: %s", said)
	}
	if out, errs, code := h.gorun("restart", "latest", "--", self(t), asRank, "count", "1"); code != 0 {
		t.Fatalf("exit %d, %s %s", code, out, errs)
	}
	if said := h.again(); !strings.Contains(said, begins) {
		t.Errorf("the job has ended well: %s", said)
	}
}

// TestRestartLatestNative: native images go on in the executable that was kept with them, which the line names
// all the same. The kind of images is what the line says now.
func TestRestartLatestNative(t *testing.T) {
	h := newHouse(t)
	for i, kind := range []string{"-cr=native", "-cr=native", "-cr=self"} {
		if said := h.again(kind, "-env", "GORUN_TEST_KEPT=kept"); i > 0 && !strings.Contains(said, fmt.Sprintf("%s%d,", goesOn, i)) {
			t.Fatalf("%s: %s", kind, said)
		}
	}
	line := []string{"-np", "3", "-cr", "-restart-latest", "-env", "GORUN_TEST_KEPT=other", self(t), asRank, "count", fmt.Sprint(limit)}
	h.again("-cr=native", "-env", "GORUN_TEST_KEPT=kept")
	if _, errs, code := h.gorun(line...); code != 2 || !strings.Contains(errs, "-env: ") {
		t.Errorf("another environment: exit %d, %s", code, errs)
	}
}

// TestRestartLatestNotWhole: a job of which nothing whole is left does not begin again by itself. The error names
// the image. One whose schema nobody can read is passed over, and told.
func TestRestartLatestNotWhole(t *testing.T) {
	h := newHouse(t)
	h.again()
	images, err := filepath.Glob(filepath.Join(h.ckpt, "*", "1", "rank-00001.img"))
	if err != nil || len(images) != 1 {
		t.Fatal(images, err)
	}
	if err := os.Truncate(images[0], 100); err != nil {
		t.Fatal(err)
	}
	line := []string{"-np", "3", "-cr", "-restart-latest", self(t), asRank, "count", fmt.Sprint(limit)}
	if _, errs, code := h.gorun(line...); code != 1 || !strings.Contains(errs, images[0]) {
		t.Errorf("truncated image: exit %d, %s", code, errs)
	}
	schema := filepath.Join(filepath.Dir(images[0]), "schema.toml")
	if err := os.WriteFile(schema, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := h.again(); !strings.Contains(said, "passes over a job that cannot be read") || !strings.Contains(said, schema) || !strings.Contains(said, begins) {
		t.Errorf("damaged schema: %s", said)
	}
}

// inAllocation makes this process one of a batch job of Slurm that has this node, with so many tasks. Slurm's
// scontrol is a script: it writes to the file asked, and fails where there is a file refuse.
func inAllocation(t *testing.T, job string, tasks int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
[ "$1 $2" != "show hostnames" ] || { echo "$3"; exit; }
echo "$*" >>` + dir + `/asked
[ ! -e ` + dir + `/refuse ] || { echo 'Requested operation is presently disabled' >&2; exit 1; }
`
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("SLURM_JOB_ID", job)
	t.Setenv("SLURM_JOB_NODELIST", own)
	t.Setenv("SLURM_TASKS_PER_NODE", fmt.Sprint(tasks))
	t.Setenv("SLURM_NTASKS", fmt.Sprint(tasks))
	return dir
}

// TestAllocation: a job in a batch job needs no flag to run where, and as many times, as that says.
func TestAllocation(t *testing.T) {
	h := newHouse(t)
	inAllocation(t, "7", 3)
	if out := h.must("echo", "here"); out != "here\nhere\nhere\n" {
		t.Errorf("without flags: %q", out)
	}
	if out := h.must("-manager", "local", "echo", "here"); out != "here\n" {
		t.Errorf("-manager local: %q", out)
	}
	if out := h.must("-np", "4", "-oversubscribe", "echo", "here"); strings.Count(out, "here") != 4 {
		t.Errorf("-oversubscribe: %q", out)
	}
	for want, args := range map[string][]string{
		"not enough slots: 4 ranks": {"-np", "4", "true"},
		"known are ssh, slurm, ":    {"-manager", "pigeon", "true"},
		"-agents is for one":        {"-agents", "2", "true"},
		"leave out -hosts":          {"-manager", "local", "-hosts", "a", "true"},
		"-lease needs nodes":        {"-manager", "local", "-lease", "20s", "true"},
	} {
		if _, errs, code := h.gorun(args...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q; want %q", args, code, errs, want)
		}
	}
	t.Setenv("SLURM_NTASKS", "2")
	if out := h.must("echo", "here"); out != "here\nhere\n" {
		t.Errorf("fewer tasks than slots: %q", out)
	}
	t.Setenv("SLURM_TASKS_PER_NODE", "x")
	if _, errs, code := h.gorun("true"); code == 0 || !strings.Contains(errs, "SLURM_TASKS_PER_NODE=x: ") || !strings.Contains(errs, "-manager local") {
		t.Errorf("not understood: exit %d, %q", code, errs)
	}
}

// TestNodesUnsaid: a way to other nodes is refused where no node is named, and so is Slurm's outside of Slurm. Without
// -np a job has a rank for each mention of a node.
func TestNodesUnsaid(t *testing.T) {
	h := newHouse(t)
	t.Setenv("SLURM_JOB_ID", "")
	for want, args := range map[string][]string{
		"-manager needs nodes":                         {"-manager", "ssh", "true"},
		"SLURM_JOB_ID is not set, so this is no":       {"-manager", "slurm", "true"},
		"salloc or sbatch, or leave the flag out":      {"-manager", "slurm", "-hosts", "a", "true"},
		"as in [fe80::1%eth0]":                         {"-hosts", "[fe80::1]", "true"},
		"not enough slots: 3 ranks, and localhost has": {"-hosts", "localhost,localhost", "-np", "3", "true"},
	} {
		if _, errs, code := h.gorun(args...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q; want %q", args, code, errs, want)
		}
	}
	for nodes, ranks := range map[string]int{"localhost": 1, "localhost,localhost": 2, "localhost:3": 3} {
		if out := h.must("-hosts", nodes, "echo", "here"); strings.Count(out, "here") != ranks {
			t.Errorf("-hosts %s: %q", nodes, out)
		}
	}
}

// TestRequeue: within Slurm the batch job's number is the job's name, and with -requeue it runs again.
func TestRequeue(t *testing.T) {
	h := newHouse(t)
	t.Setenv("SLURM_JOB_ID", "")
	if _, errs, code := h.gorun("-cr", "-requeue", "true"); code != 2 || !strings.Contains(errs, "SLURM_JOB_ID is not set") {
		t.Errorf("without Slurm: exit %d, %s", code, errs)
	}
	dir := inAllocation(t, "7", 3)
	if _, errs, code := h.gorun("-requeue", "true"); code != 2 || !strings.Contains(errs, "-requeue needs -cr") {
		t.Errorf("without -cr: exit %d, %s", code, errs)
	}
	if said := h.again("-requeue"); !strings.Contains(said, begins+" named slurm-7") {
		t.Errorf("begin: %s", said)
	}
	if said := h.again("-requeue"); !strings.Contains(said, goesOn+"1,") {
		t.Errorf("after the requeue: %s", said)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || string(asked) != "requeue 7\nrequeue 7\n" {
		t.Errorf("scontrol was asked %q, %v", asked, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "refuse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := h.again("-requeue"); !strings.Contains(said, "scontrol requeue 7: exit status 1: Requested operation is presently disabled") {
		t.Errorf("refused: %s", said)
	}
	t.Setenv("SLURM_JOB_ID", "8")
	if said := h.again(); !strings.Contains(said, begins+" named slurm-8") {
		t.Errorf("another batch job: %s", said)
	}
	if out := h.must("-np", "2", "-requeue", "-cr", self(t), asRank, "count", "1"); !strings.Contains(out, "begins at") {
		t.Errorf("a job that ends well: %s", out)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || strings.Count(string(asked), "\n") != 3 {
		t.Errorf("scontrol was asked %q, %v", asked, err)
	}
}
