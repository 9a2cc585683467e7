package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// detachHouse is a house whose commands work in a folder of their own, and have a home.
func detachHouse(t *testing.T) *house {
	h := newHouse(t)
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GORUN_DIR", "")
	return h
}

// TestDetach: the id comes when the job is up, so it can be checkpointed at once, and gorun wait returns its status, while it runs and after.
func TestDetach(t *testing.T) {
	h := detachHouse(t)
	id := strings.TrimSpace(h.must("-detach", "-np", "2", "-cr", self(t), asRank, "count", "1000000"))
	if len(id) != 36 {
		t.Fatalf("%q is no id", id)
	}
	waits := h.start("", "wait", id[:8])
	h.must("checkpoint", "-stop", id)
	if code := waits.code(); code != 75 {
		t.Errorf("waiting: exit %d, %s", code, waits.err)
	}
	if _, errs, code := h.gorun("wait", id); code != 75 {
		t.Errorf("after its end: exit %d, %s", code, errs)
	}
	if _, errs, code := h.gorun("wait", id[:8]); code != 75 {
		t.Errorf("by the beginning of its id: exit %d, %s", code, errs)
	}
	output, _ := filepath.Abs("gorun-" + id + ".out")
	for _, verb := range []string{"status", "kill", "checkpoint"} {
		_, errs, code := h.gorun(verb, id[:8])
		if code != 1 || !strings.Contains(errs, "job "+id+" has ended, with status 75; its output is in "+output+"; gorun restart "+id+" goes on from snapshot ") {
			t.Errorf("%s of a job that has ended: exit %d, %s", verb, code, errs)
		}
	}
	said, err := os.ReadFile("gorun-" + id + ".out")
	if err != nil || !strings.Contains(string(said), "gorun restart") {
		t.Errorf("its output: %q, %v", said, err)
	}
	again := strings.TrimSpace(h.must("restart", "-detach", id))
	if again != id {
		t.Errorf("restarted as %q", again)
	}
	h.must("kill") // the only one
	if _, errs, code := h.gorun("wait", id); code != 143 {
		t.Errorf("killed: exit %d, %s", code, errs)
	}
	if _, err := os.Stat("gorun-" + id + ".2.out"); err != nil {
		t.Error("the restart's output:", err)
	}
}

// TestDetachOthers: programs that never call Init, and short ones; jobs that do not come up leave their error and status, and no file.
func TestDetachOthers(t *testing.T) {
	h := detachHouse(t)
	id := strings.TrimSpace(h.must("-detach", "sleep", "1000"))
	h.must("kill", id)
	id = strings.TrimSpace(h.must("-detach", "echo", "here"))
	if _, errs, code := h.gorun("wait", id); code != 0 {
		t.Errorf("a short job: exit %d, %s", code, errs)
	}
	if said, err := os.ReadFile("gorun-" + id + ".out"); err != nil || string(said) != "here\n" {
		t.Errorf("its output: %q, %v", said, err)
	}
	before, _ := filepath.Glob("*")
	for want, args := range map[string][]string{
		"not found":            {"-detach", "no-such-program"},
		"provided but not":     {"-detach", "-no-such-flag", "true"},
		"with status 3":        {"-detach", "sh", "-c", "exit 3"},
		"no job of yours":      {"wait", "4711"},
		"wait: which JOB?":     {"wait"},
		"no such file or dire": {"restart", "-detach", "/none/schema.toml"},
	} {
		if out, errs, code := h.gorun(args...); code == 0 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}
	if after, _ := filepath.Glob("*"); len(after) != len(before) {
		t.Errorf("left: %q", after)
	}
}

// TestWaitKilled: of a job whose gorun was killed nobody knows the status, and that is said.
func TestWaitKilled(t *testing.T) {
	h := detachHouse(t)
	id := strings.TrimSpace(h.must("-detach", "sleep", "1000"))
	var jobs []struct{ PID int }
	if err := json.Unmarshal([]byte(h.must("ps", "-json")), &jobs); err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	if err := syscall.Kill(jobs[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("wait", id); code != 1 || !strings.Contains(errs, "was killed") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestJobIDOfOthers: the id of a program that never calls Init is in the file while it runs, and that of a short one at its end.
func TestJobIDOfOthers(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("-", "-jobid-file", file, "cat")
	id := h.jobID(p, file)
	h.must("kill", id)
	p.code()
	h.must("-jobid-file", file, "true")
	testenv.Until(t, func() string {
		if b, err := os.ReadFile(file); err != nil || len(b) != 37 || strings.TrimSpace(string(b)) == id {
			return "the id of a short job is not in the file"
		}
		return ""
	})
}
