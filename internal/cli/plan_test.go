package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// Nothing that a schema says is executed. A program of the user's own gets no variable by which another could be.
func TestRestartTakesNoCommands(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-env", "GORUN_TEST_KEPT=kept", "-migrate-on", "echo $PPID; exit 0")
	path := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	if p.code(); !strings.Contains(p.err.String(), `goes on with: gorun restart -migrate-on 'echo $PPID; exit 0' `+path) {
		t.Errorf("the way to go on leaves out the command: %s", p.err)
	}
	s, err := snapshot.ReadSchema(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Plan["migrate-on"] != "" {
		t.Errorf("the schema has a command: %v", s.Plan)
	}
	planted := filepath.Join(t.TempDir(), "planted")
	s.Plan = map[string]string{"migrate-on": "> " + planted + "\x1b[31m; sleep 100"}
	s.Program.Env = append(s.Program.Env, "LD_PRELOAD=/nowhere.so", "LC_ALL=/nowhere/C", "OMP_NUM_THREADS=3")
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	own := []string{"--", self(t), asRank, "count", "1"}
	for _, args := range [][]string{append([]string{path}, own...), append([]string{"-cr=false", path}, own...)} {
		out, errs, code := h.gorun(append([]string{"restart"}, args...)...)
		if code != 0 || began(t, out) == 0 || strings.Contains(out, "kept") {
			t.Errorf("exit %d, %q %q", code, out, errs)
		}
		for _, want := range []string{`as commands never are; give it again if you want it: "-migrate-on '> ` + planted + `\x1b[31m; sleep 100'"`, "what it needs: GORUN_TEST_KEPT LD_PRELOAD LC_ALL\n"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%q does not say %q", errs, want)
			}
		}
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("a command of the schema was run")
	}
	h.nothingLeft()
}
