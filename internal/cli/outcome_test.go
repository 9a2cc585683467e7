package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Lost output is told beside what else there is to say, and replaces no status.
func TestLostOutputIsNoStatus(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for status, script := range map[int]string{3: "echo lost; exit 3", 143: "echo lost; kill $$; wait", 1: "echo lost"} {
		h := newHouse(t)
		p := h.startTo(full, "", "-np", "1", "sh", "-c", script)
		if code := p.code(); code != status || !strings.Contains(p.err.String(), "output of ranks is lost: write ") {
			t.Errorf("%s: exit %d, want %d\n%s", script, code, status, p.err)
		}
		h.nothingLeft()
	}
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	p := h.startTo(full, "", "-np", "1", "-cr=self", "-ckpt-on-signal", "USR1", "-jobid-file", file, self(t), asRank, "count", fmt.Sprint(limit))
	id := h.jobID(p, file)
	p.signal(syscall.SIGUSR1)
	if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "goes on with: gorun restart ") {
		t.Errorf("checkpointed and stopped: exit %d\n%s", code, p.err)
	}
	if !strings.Contains(p.err.String(), id) {
		t.Errorf("the job is not named:\n%s", p.err)
	}
	h.nothingLeft()
}

// After a failure gorun says how to go on, if there is something to go on from, and that line works.
func TestGoesOnWith(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	p.kill(t)
	if strings.Contains(p.err.String(), "go on with") {
		t.Errorf("there was no snapshot:\n%s", p.err)
	}
	p, id = h.countJob(limit)
	h.must("checkpoint", id)
	p.kill(t)
	found := regexp.MustCompile(`(?m)^gorun: go on with: gorun restart (\S+schema\.toml)$`).FindStringSubmatch(p.err.String())
	if found == nil || !strings.Contains(found[1], id) {
		t.Fatalf("%s", p.err)
	}
	file := filepath.Join(t.TempDir(), "id")
	again := h.start("", "restart", "-jobid-file", file, found[1])
	h.jobID(again, file) // only then signals are gorun's to handle
	again.signal(syscall.SIGTERM)
	again.code()
	h.nothingLeft()
}

// kill kills a rank, and waits for the end of the job.
func (p *proc) kill(t *testing.T) {
	t.Helper()
	_, ranks := p.family()
	if err := syscall.Kill(ranks[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 137 {
		t.Errorf("exit %d\n%s", code, p.err)
	}
}

// Checkpoints that fail are told by gorun status, and at the end of the job.
func TestFailingCheckpointsAreSeen(t *testing.T) {
	h := newHouse(t)
	h.ckpt = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(h.ckpt, nil, 0o600); err != nil { // where a folder is to be
		t.Fatal(err)
	}
	p, id := h.countJob(limit)
	for range 2 {
		if _, errs, code := h.ask("checkpoint", id); code != 1 {
			t.Fatalf("exit %d, %s", code, errs)
		}
	}
	const want = `the last 2 attempts failed: .*; no snapshot for \d+ s`
	for _, args := range [][]string{{"status", id}, {"ps"}} {
		if out := h.must(args...); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v says nothing of it:\n%s", args, out)
		}
	}
	if out := h.must("status", "-metrics", id); !regexp.MustCompile(`(?m)^gorun_checkpoint_failures_in_a_row\{.*\} 2$`).MatchString(out) {
		t.Errorf("the metrics say nothing of it:\n%s", out)
	}
	h.must("kill", id)
	p.code()
	if !regexp.MustCompile(want).MatchString(p.err.String()) {
		t.Errorf("nothing is said at the end:\n%s", p.err)
	}
	h.nothingLeft()
}
