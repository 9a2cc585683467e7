package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// resized restarts a snapshot with a number of ranks, and stops it again at another Point.
func (h *house) resized(np, schema string) string {
	h.t.Helper()
	file := filepath.Join(h.run, "id."+np)
	p := h.start("restart", "-np", np, "-jobid-file", file, schema)
	next := strings.TrimSpace(h.must("checkpoint", "-stop", jobID(h.t, p, file)))
	if code := p.wait(); code != 75 {
		h.t.Fatalf("restart -np %s: exit %d\n%s", np, code, p.errs)
	}
	if said := p.errs.String(); !strings.Contains(said, "on "+np+" ranks now") {
		h.t.Errorf("restart -np %s says %q", np, said)
	}
	return next
}

// TestResize restarts 4 ranks as 8, these as 3 and these as 1: the result is that of an undisturbed run. Images lie beside
// their schemas, in an object store, and sealed in a folder of the node; the program is examples/heat by rows, or the solver.
func TestResize(t *testing.T) {
	for name, x := range map[string]struct {
		like, program []string // undisturbed, and resized
		flags         func(h *house) []string
	}{
		"heat":   {[]string{"heat", "-n", "40", "-steps", "300"}, []string{"rows", "-n", "40", "-steps", "300"}, func(h *house) []string { return nil }},
		"bucket": {[]string{"heat", "-n", "40", "-steps", "300"}, []string{"rows", "-n", "40", "-steps", "300"}, func(h *house) []string { _, flags := h.bucket(); return flags }},
		"sealed": {[]string{"solver", "-poisson", "8", "-iters", "100", "-tol", "0"}, []string{"solver", "-poisson", "8", "-iters", "100", "-tol", "0"}, (*house).sealedLocally},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			like := append([]string{"-np", "2", filepath.Join(bin, x.like[0])}, x.like[1:]...)
			want := digest(t, h.must(like...))
			program := append([]string{"-np", "4", filepath.Join(bin, x.program[0]), "-slow", "3ms"}, x.program[1:]...)
			schema := h.stopped("-cr=self", append(x.flags(h), program...))
			for _, np := range []string{"8", "3"} {
				schema = h.resized(np, schema)
			}
			if got := digest(t, h.must("restart", "-np", "1", schema)); got != want {
				t.Errorf("digest %s, undisturbed %s", got, want)
			}
			h.clean()
		})
	}
}

// sealedLocally are flags for images in a folder of the node, sealed.
func (h *house) sealedLocally() []string {
	key := filepath.Join(h.run, "key")
	h.must("key", key)
	return []string{"-ckpt-key", key, "-ckpt-local", h.t.TempDir()}
}
