package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// ask runs a command beside a job.
func (h *house) ask(args ...string) (out, errs string, code int) {
	h.t.Helper()
	p := h.start("", args...)
	code = p.code()
	return p.out.String(), p.err.String(), code
}

// A checkpoint waits for the end of a section. If it waits for too long, its error says for whom.
func TestProgramHolds(t *testing.T) {
	for _, kind := range []string{"-cr=self", "-cr=native"} {
		t.Run(kind, func(t *testing.T) {
			h := newHouse(t)
			dir := t.TempDir()
			file, jobid := filepath.Join(dir, "go"), filepath.Join(dir, "id")
			if err := unix.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			p := h.start("", "-np", "3", kind, "-jobid-file", jobid, self(t), asRank, "section", file, fmt.Sprint(limit))
			id := h.jobID(p, jobid)
			p.out.wait(t, "in the section\n", 1)
			_, errs, code := h.ask("checkpoint", "-timeout", "20ms", id)
			if code != 1 || !strings.Contains(errs, "checkpoints have been held off for 20ms, by rank 0 in ") || !strings.Contains(errs, "rank_test.go:") {
				t.Errorf("exit %d, %s", code, errs)
			}
			if out := h.must("status", id); !strings.Contains(out, "by rank 0 in cli_test.section at ") {
				t.Errorf("status: %s", out)
			}
			q := h.start("", "checkpoint", "-stop", id)
			testenv.Until(t, func() string {
				if out := h.must("status", id); !strings.Contains(out, "held\n") {
					return out
				}
				return ""
			})
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if q.code() != 0 || p.code() != 75 {
				t.Fatalf("%s %s", q.err, p.err)
			}
			if out := p.out.String(); !strings.Contains(out, "after the section") {
				t.Errorf("the snapshot was taken in the section: %s", out)
			}
			// It goes on unheld.
			if err := errors.Join(os.Remove(jobid), os.Remove(file), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			p = h.start("", "restart", "-jobid-file", jobid, id)
			h.jobID(p, jobid)
			if kind == "-cr=native" { // the program is behind its section
				if out := h.must("status", id); strings.Contains(out, "held off") {
					t.Errorf("restarted: %s", out)
				}
				h.must("checkpoint", id)
			}
			h.must("kill", id)
			p.code()
			h.nothingLeft()
		})
	}
}

// A user holds a job, through the death of a rank, and periodic checkpoints wait for the release.
func TestHoldCommand(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-restarts", "1")
	h.must("hold", id)
	h.must("hold", id)
	refused := func() {
		t.Helper()
		_, errs, code := h.ask("checkpoint", "-timeout", "20ms", id)
		if code != 1 || !strings.Contains(errs, "held off for 20ms, by gorun hold since ") || !strings.Contains(errs, "gorun release "+id[:8]) {
			t.Errorf("exit %d, %s", code, errs)
		}
	}
	refused()
	_, ranks := p.family()
	syscall.Kill(ranks[1], syscall.SIGKILL)
	p.err.wait(t, "restarting from the start", 1)
	testenv.Until(t, func() string {
		if out := h.must("status", id); strings.Count(out, ": running") != 3 {
			return out
		}
		return ""
	})
	refused()
	h.must("release", id)
	h.must("checkpoint", id)
	if _, errs, code := h.ask("release", id); code != 1 || !strings.Contains(errs, "not held by gorun hold") {
		t.Errorf("a second release: exit %d, %s", code, errs)
	}
	if _, errs, code := h.ask("hold"); code != 2 || !strings.Contains(errs, "which JOB?") {
		t.Errorf("hold of nothing: exit %d, %s", code, errs)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

func TestPeriodicIsPutOff(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-ckpt-every", "10ms", "-v")
	p.err.wait(t, "committed", 1)
	h.must("hold", id)
	p.err.wait(t, "checkpoint: held", 1) // the next one
	committed := strings.Count(p.err.String(), "committed")
	if out := h.must("status", id); !strings.Contains(out, "by gorun hold") || strings.Count(p.err.String(), "committed") > committed {
		t.Errorf("%s\n%s", out, p.err)
	}
	h.must("release", id)
	p.err.wait(t, "committed", committed+1)
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// A suspended job stands still, says so, and goes on.
func TestSuspend(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-agents", "2")
	_, ranks := p.family()
	stand := func() {
		t.Helper()
		for _, pid := range ranks {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			for _, task := range tasks {
				if b, err := os.ReadFile(task); err == nil && !strings.Contains(string(b), ") T ") {
					t.Errorf("a thread of process %d runs: %.60s", pid, b)
				}
			}
			if len(tasks) == 0 {
				t.Errorf("process %d is gone", pid)
			}
		}
	}
	h.must("suspend", id)
	stand()
	p.signal(syscall.SIGCONT) // as by fg: it is gorun that was not stopped
	if _, errs, code := h.ask("checkpoint", "-timeout", "20ms", id); code != 1 || !strings.Contains(errs, "gorun suspend") || !strings.Contains(errs, "gorun resume") {
		t.Errorf("checkpoint: exit %d, %s", code, errs)
	}
	out := h.must("status", id)
	if !strings.Contains(out, "suspended") {
		t.Errorf("status: %s", out)
	}
	if out := h.must("ps"); !strings.Contains(out, " suspended ") {
		t.Errorf("ps: %s", out)
	}
	if _, errs, code := h.ask("suspend", id); code != 1 || !strings.Contains(errs, "suspended already") {
		t.Errorf("suspend again: exit %d, %s", code, errs)
	}
	stand()
	h.must("resume", id)
	h.must("checkpoint", id)
	if _, errs, code := h.ask("resume", id); code != 1 || !strings.Contains(errs, "not suspended") {
		t.Errorf("resume again: exit %d, %s", code, errs)
	}
	h.must("suspend", id)
	h.must("kill", id)
	if code := p.code(); code != 143 {
		t.Errorf("killed: exit %d, %s", code, p.err)
	}
	h.nothingLeft()
}

// A restart waits until a suspended job is resumed.
func TestSuspendedRankDies(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-restarts", "1")
	_, ranks := p.family()
	h.must("suspend", id)
	syscall.Kill(ranks[0], syscall.SIGKILL)
	p.err.wait(t, "it begins again when it is resumed", 1)
	if strings.Contains(p.err.String(), "restarting") {
		t.Errorf("%s", p.err)
	}
	h.must("resume", id)
	p.err.wait(t, "restarting from the start", 1)
	testenv.Until(t, func() string {
		if _, errs, code := h.ask("checkpoint", id); code != 0 {
			return errs
		}
		return ""
	})
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// The limit of a user holds, also in an attempt that the user has joined and that has a longer one.
func TestLimitIsTheUsers(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-cr=native", "-ckpt-every", "10ms")
	_, ranks := p.family()
	if err := syscall.Kill(ranks[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, func() string {
		if out := h.must("status", id); !strings.Contains(out, "draining") && !strings.Contains(out, "capturing") && !strings.Contains(out, "closing") {
			return "no attempt waits for the rank:\n" + out
		}
		return ""
	})
	if _, errs, code := h.ask("checkpoint", "-timeout", "600ms", id); code != 1 || !strings.Contains(errs, "within 600ms") {
		t.Errorf("exit %d, %q", code, errs)
	}
	h.must("kill", "-9", id)
	p.code()
	h.nothingLeft()
}
