package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestRealMatrix solves the matrix that GORUN_MATRIX names on several ranks,
// with a checkpoint, a kill and a restart.
func TestRealMatrix(t *testing.T) {
	matrix := os.Getenv("GORUN_MATRIX")
	if matrix == "" {
		t.Skip("GORUN_MATRIX names no Matrix Market file")
	}
	h := newHouse(t)
	problem := []string{"-matrix", matrix, "-iters", "200", "-tol", "1e-12"}
	want := digest(t, h.must(append([]string{"-np", "4"}, solver(problem...)...)...))
	schema := h.stopped("-cr=self", append([]string{"-np", "4"}, solver(append(problem, "-slow", "10ms")...)...))
	if got := digest(t, h.must("restart", schema)); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	h.clean()
}

// TestManyRanks checkpoints 64 ranks and restarts them, twice side by side.
func TestManyRanks(t *testing.T) {
	h := newHouse(t)
	problem := []string{"-poisson", "12", "-iters", "50", "-tol", "0"}
	want := digest(t, h.must(append([]string{"-np", "64"}, solver(problem...)...)...))
	schema := h.stopped("-cr=self", append([]string{"-np", "64"}, solver(append(problem, "-slow", "20ms")...)...))
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out, errs, code := h.gorun("restart", "-files", "copy", schema)
			if code != 0 {
				t.Errorf("restart: exit %d\n%s", code, errs)
			} else if got := digest(t, out); got != want {
				t.Errorf("digest %s, undisturbed %s", got, want)
			}
		}()
	}
	wg.Wait()
	h.clean()
}

// TestTransparentIsRefused asks for a checkpoint of a program that registers
// nothing: the answer says what to do, the program goes on.
func TestTransparentIsRefused(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(h.run, "id")
	args := []string{filepath.Join(bin, "heat"), "-n", "200", "-steps", "3000"}
	want := digest(t, h.must(append([]string{"-np", "2"}, args...)...))
	p := h.start(append([]string{"-np", "2", "-cr=self", "-jobid-file", file}, args...)...)
	_, errs, code := h.gorun("checkpoint", jobID(t, p, file))
	if code == 0 || !strings.Contains(errs, "cr.Register") {
		t.Errorf("checkpoint: exit %d\n%s", code, errs)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.errs)
	}
	if got := digest(t, p.out.String()); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	h.clean()
}

// TestTwoRequestsAtOnce asks many times at once; all are answered with
// committed snapshots, and no more are taken than asked for.
func TestTwoRequestsAtOnce(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(h.run, "id")
	p := h.start(append([]string{"-np", "4", "-cr=self", "-jobid-file", file}, solver("-poisson", "8", "-iters", "300", "-tol", "0", "-slow", "5ms")...)...)
	id := jobID(t, p, file)
	var wg sync.WaitGroup
	const asked = 6
	for range asked {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out, errs, code := h.gorun("checkpoint", id)
			if code != 0 {
				t.Errorf("checkpoint: exit %d\n%s", code, errs)
			} else if _, err := os.Stat(strings.TrimSpace(out)); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	if n := len(schemas); n < 1 || n > asked {
		t.Errorf("%d snapshots for %d requests", n, asked)
	}
	h.must("kill", id)
	p.wait()
	h.clean()
}
