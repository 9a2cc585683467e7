package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// Ranks that wait for each other are told, once, with who waits for whom and where.
func TestDeadlock(t *testing.T) {
	for how, want := range map[string][]string{
		"cycle":      {"rank 0 waits for 2 at ", "rank_standstill_test.go:", " in mpi.RecvValue: Recv(source 2, tag 7, ", "rank 2 waits for 1 at ", "rank 1 waits for 0 at "},
		"any":        {"rank 0 waits for any rank at ", "rank 1 waits for any rank at ", "rank 2 waits for any rank at "},
		"goroutines": {"rank 0 waits for 1 at ", "rank 1 waits for 2 at ", "rank 2 waits for 0 at "},
		"ssend":      {"rank 0 waits for 1 at ", " in Ssend(destination 1, tag 3, "},
		"waitany":    {"rank 0 waits for one of ranks 0-2 at ", " in mpi.Waitany: WaitAny of 3 requests"},
		"iallreduce": {"rank 0 waits for 1 at ", "rank 1 waits for "},
	} {
		t.Run(how, func(t *testing.T) {
			h := newHouse(t)
			p := h.start("-", "-np", "3", "-deadlock", "100ms", self(t), asRank, "standstill", how, "")
			p.err.wait(t, "gorun: the job goes on waiting; gorun stacks ", 1)
			for _, w := range want {
				if !strings.Contains(p.err.String(), w) {
					t.Errorf("%q is not told:\n%s", w, p.err)
				}
			}
			id := waitedFor(t, h, time.Second) // ten looks
			if n := strings.Count(p.err.String(), "deadlock: for 100ms"); n != 1 {
				t.Errorf("told %d times:\n%s", n, p.err)
			}
			h.must("kill", "-9", id)
			p.code()
			h.nothingLeft()
		})
	}
}

// A rank that does something, however slowly, is no part of a deadlock.
func TestNoDeadlock(t *testing.T) {
	for _, how := range []string{"reads", "sleeps", "computes", "tests", "deadline"} {
		t.Run(how, func(t *testing.T) {
			h := newHouse(t)
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			p := h.start("-", "-np", "3", "-deadlock", "100ms", self(t), asRank, "standstill", how, pipe)
			waitedFor(t, h, time.Second)
			f, err := os.OpenFile(pipe, os.O_RDWR, 0) // never waits for a reader
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
			os.Remove(pipe)
			if code := p.code(); code != 0 || strings.Contains(p.err.String(), "deadlock") {
				t.Errorf("exit %d:\n%s", code, p.err)
			}
			h.nothingLeft()
		})
	}
}

// waitedFor waits until ranks of the only job have waited for so long, and returns its id.
func waitedFor(t *testing.T, h *house, d time.Duration) (id string) {
	t.Helper()
	for {
		q := h.start("", "status", "-json")
		if q.code() != 0 {
			continue // no job yet
		}
		var s control.Status
		if err := json.Unmarshal([]byte(q.out.String()), &s); err != nil {
			t.Fatal(err)
		}
		for i := range s.Ranks {
			for _, w := range s.Ranks[i].Waits {
				if w.For >= d {
					return s.Job
				}
			}
		}
	}
}
