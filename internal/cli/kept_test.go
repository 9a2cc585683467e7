package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// A restart has the transports and parameters that the job was given, as far as
// it is not told others; not those that say where its ranks are.
func TestRestartKeeps(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	// run checks what a job that has just been started uses, and what its snapshot says.
	run := func(p *proc, uses string, rpi []string, eager string) {
		t.Helper()
		p.err.wait(t, "transports: "+uses+"\n", 1)
		p.out.wait(t, "begins at", 1)
		id := h.jobID(p, file)
		s, err := snapshot.ReadSchema(strings.TrimSpace(h.must("checkpoint", "-stop", id)))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"tcp.eager": eager}; !slices.Equal(s.RPI, rpi) || !maps.Equal(s.Params, want) {
			t.Errorf("the schema has %v and %v, want %v and %v", s.RPI, s.Params, rpi, want)
		}
		if code := p.code(); code != 75 {
			t.Errorf("exit %d: %s", code, p.err)
		}
		os.Remove(file)
	}
	run(h.start("", "-np", "2", "-v", "-cr=self", "-rpi", "tcp", "-param", "tcp.eager=1024", "-param", "job.nodes=hosts", "-jobid-file", file,
		self(t), asRank, "count", fmt.Sprint(limit)), "tcp", []string{"tcp"}, "1024")
	run(h.start("", "restart", "-v", "-jobid-file", file, "latest"), "tcp", []string{"tcp"}, "1024")
	run(h.start("", "restart", "-v", "-rpi", "default", "-param", "tcp.eager=2048", "-jobid-file", file, "latest"), "shm", nil, "2048")
	h.nothingLeft()
}

// Errors name the thing that is wrong, not something near it.
func TestWrongFolders(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("-cr", "-ckpt-dir", file, "true"); code != 0 || !strings.Contains(errs, "stored in "+file+": "+file+" is not a folder") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if _, errs, code := h.gorun("restart", file); code != 1 || !strings.Contains(errs, file+": no such snapshot: it is neither a schema") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
