package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// The command of -migrate-on watches a node for as long as a rank is there, whichever agents they have.
func TestMonitorStays(t *testing.T) {
	h := newHouse(t)
	file, ask := filepath.Join(t.TempDir(), "id"), filepath.Join(t.TempDir(), "ask")
	p := h.start("", "-np", "2", "-cr=native", "-jobid-file", file,
		"-migrate-on", "echo watches; while :; do rm "+ask+" 2>/dev/null && echo asked; sleep 0.02; done", self(t), asRank, "hang")
	id := h.jobID(p, file)
	asked := func(n int) {
		t.Helper()
		if err := os.WriteFile(ask, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.err.wait(t, ": asked:", n)
	}
	asked(1)
	for i, rank := range []string{"0", "1"} {
		testenv.Until(t, func() string {
			if m := h.start("", "migrate", id, "-ranks", rank, "-to", "localhost"); m.code() != 0 {
				return m.err.String()
			}
			return ""
		})
		asked(2 + i)
	}
	if n := strings.Count(p.err.String(), ": watches:"); n != 2 {
		t.Errorf("%d have watched, one after the other: %s", n, p.err)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}
