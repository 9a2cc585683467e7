package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// A job that hangs tells what each rank waits for, and where in the program.
func TestHangs(t *testing.T) {
	h := newHouse(t)
	file := t.TempDir() + "/id"
	p := h.start("", "-np", "3", "-jobid-file", file, self(t), asRank, "hang")
	id := h.jobID(p, file)
	says := func(s *control.Status, rank int, call, what string) bool {
		for _, w := range s.Ranks[rank].Waits {
			if w.Call == call && strings.Contains(w.Site, "/cli/rank_test.go:") && strings.HasPrefix(w.What, what) && w.For > 0 {
				return true
			}
		}
		return false
	}
	var s *control.Status
	for { // until all are asleep
		s = new(control.Status)
		if err := json.Unmarshal([]byte(h.must("status", "-json", id)), s); err != nil {
			t.Fatal(err)
		}
		if says(s, 0, "mpi.RecvValue", "Recv(source 1, tag 7, ") && says(s, 1, "mpi.Barrier", "") && says(s, 2, "mpi.Barrier", "") {
			break
		}
	}
	if out := h.must("status", id); strings.Count(out, "mpi.Barrier at ") != 2 || !strings.Contains(out, "mpi.RecvValue at ") {
		t.Error(out)
	}
	out := h.must("stacks", "-rank", "0", id)
	if !strings.Contains(out, "cli_test.hang(") || strings.Contains(out, "rank 1 (") {
		t.Error(out)
	}
	if out := h.must("stacks", id); strings.Count(out, "\ngoroutine 1 [") != 3 {
		t.Error(out)
	}
	q := h.start("", "stacks", "-rank", "3", id)
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "there is no rank 3, they are 0 to 2") {
		t.Errorf("exit %d: %s", code, q.err)
	}
	// A stopped rank cannot answer. Its agent answers for it.
	if err := syscall.Kill(s.Ranks[2].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(h.must("status", id), "is stopped (process ") {
	}
	q = h.start("", "stacks", id)
	if code := q.code(); code != 1 || !strings.Contains(q.out.String(), "is stopped (process ") || !strings.Contains(q.err.String(), "1 of 3 ranks have told nothing") {
		t.Errorf("exit %d: %s%s", code, q.out, q.err)
	}
	h.must("kill", "-9", id)
	p.code()
	h.nothingLeft()
}

// When -timeout runs out everybody gets to know what the ranks were waiting for.
func TestTimeoutTells(t *testing.T) {
	p := newHouse(t).start("", "-np", "3", "-timeout", "1s", self(t), asRank, "hang")
	if code := p.code(); code != spec.ExitTimeout {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"gorun: rank 0: mpi.RecvValue at ", "rank_test.go:", ": Recv(source 1, tag 7, ", "gorun: ranks 1-2: mpi.Barrier at "} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("%q lacks %q", p.err, want)
		}
	}
}
