package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBenchmark kills a rank of a NAS benchmark after a checkpoint. It goes on by itself, from images of either kind, and
// finds what NAS has published. Undisturbed a run takes three seconds.
func TestBenchmark(t *testing.T) {
	dir, name := t.TempDir(), "apps/npb/lu"
	if err := build(dir, os.Environ(), name); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"self", "native"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == "native" {
				needNative(t)
			}
			h := newHouse(t)
			file := filepath.Join(h.run, "id")
			p := h.start("-np", "4", "-cr="+kind, "-restarts", "1", "-jobid-file", file, filepath.Join(dir, name), "-slow", "60ms", "S")
			h.must("checkpoint", jobID(t, p, file))
			agents, ranks := p.family()
			if len(ranks) != 4 || syscall.Kill(ranks[3], syscall.SIGKILL) != nil {
				t.Fatalf("ended before the kill\n%s", p.errs)
			}
			code := p.wait()
			gone(t, append(agents, ranks...)...)
			h.clean()
			if out := p.out.String(); code != 0 || !strings.HasSuffix(strings.TrimSpace(out), "\nVerification: SUCCESSFUL") {
				t.Errorf("exit %d\n%s\n%s", code, out, p.errs)
			}
			if !strings.Contains(p.errs.String(), "restarting from snapshot") {
				t.Errorf("it did not go on from a snapshot\n%s", p.errs)
			}
		})
	}
}
