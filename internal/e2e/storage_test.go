package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var shortRun = []string{"-poisson", "8", "-iters", "60", "-tol", "0"}

func solver(args ...string) []string { return append([]string{filepath.Join(bin, "solver")}, args...) }

func TestDamagedImages(t *testing.T) {
	h := newHouse(t)
	schema := h.stopped("-cr=self", append([]string{"-np", "3"}, solver(append(shortRun, "-slow", "10ms")...)...))
	other := h.stopped("-cr=self", append([]string{"-np", "3"}, solver("-poisson", "8", "-iters", "80", "-tol", "0", "-slow", "10ms")...))
	h.damage(t, schema, other)
	h.clean()
}

// TestRestartSweeps restarts a job whose head died while it wrote one snapshot and removed another. Nothing of
// these may stay, though the job takes no further snapshot.
func TestRestartSweeps(t *testing.T) {
	h := newHouse(t)
	schema := h.stopped("-cr=self", append([]string{"-np", "2"}, solver(append(shortRun, "-slow", "10ms")...)...))
	half := filepath.Join(filepath.Dir(filepath.Dir(schema)), "7")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	h.store(filepath.Join(half, "rank-00000.img"), []byte("half an image"))
	h.must("restart", schema)
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("half a snapshot is left: %v", err)
	}
	h.clean()
}

// damage damages a snapshot of three ranks in every way that storage does.
// Verify and restart must refuse it and name the file and the rank.
func (h *house) damage(t *testing.T, schema, other string) {
	image := func(schema string, rank string) string {
		m, err := filepath.Glob(filepath.Join(filepath.Dir(schema), "rank-0000"+rank+".img"))
		if err != nil || len(m) != 1 {
			t.Fatalf("images of rank %s: %v, %v", rank, m, err)
		}
		return m[0]
	}
	victim := image(schema, "1")
	whole, err := os.ReadFile(victim)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(image(other, "1"))
	if err != nil {
		t.Fatal(err)
	}
	neighbour, err := os.ReadFile(image(schema, "2"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 0x10
	for name, content := range map[string][]byte{
		"truncated":        whole[:len(whole)-7],
		"half":             whole[:len(whole)/2],
		"empty":            {},
		"one bit flipped":  flipped,
		"of another job":   foreign,
		"of another rank":  neighbour,
		"not an image":     []byte("hello"),
		"missing":          nil,
		"whole once again": whole,
	} {
		t.Run(name, func(t *testing.T) {
			h.store(victim, content)
			defer h.store(victim, whole)
			_, verr, vcode := h.gorun("snapshots", "-verify", schema)
			if name == "whole once again" {
				if vcode != 0 {
					t.Fatalf("verify: %s", verr)
				}
				return
			}
			if vcode == 0 {
				t.Error("verify found nothing")
			}
			out, errs, code := h.gorun("restart", schema)
			if code == 0 {
				t.Fatalf("restarted from it: %s", out)
			}
			if !strings.Contains(errs, filepath.Base(victim)) || !strings.Contains(errs, "rank 1") {
				t.Errorf("file and rank are not named:\n%s", errs)
			}
		})
	}
	if digest(t, h.must("restart", schema)) == "" {
		t.Error("the mended snapshot does not restart")
	}
}

// store replaces a file by one that gorun's user may read; nil removes it.
func (h *house) store(name string, content []byte) {
	h.t.Helper()
	os.Remove(name)
	if content == nil {
		return
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		h.t.Fatal(err)
	}
	if h.user != nil {
		if err := os.Chown(name, int(h.user.Uid), int(h.user.Gid)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// failsAndGoesOn asks for a checkpoint that cannot be stored and expects an
// error that names why, and a job that ends well all the same. It returns what
// the job said.
func (h *house) failsAndGoesOn(dir, why string) string {
	h.t.Helper()
	want := digest(h.t, h.must(append([]string{"-np", "4"}, solver(shortRun...)...)...))
	return h.failsWith(dir, why, want, append([]string{"-np", "4", "-cr=self"}, solver(append(shortRun, "-slow", "20ms")...)...))
}

// failsWith does it for any run.
func (h *house) failsWith(dir, why, want string, args []string) string {
	h.t.Helper()
	file := filepath.Join(h.run, "id")
	p := h.start(append([]string{"-ckpt-dir", dir, "-jobid-file", file}, args...)...)
	_, errs, code := h.gorun("checkpoint", jobID(h.t, p, file))
	if code == 0 || !strings.Contains(errs, why) {
		h.t.Errorf("checkpoint: exit %d, stderr %q, want %q in it", code, errs, why)
	}
	if code := p.wait(); code != 0 {
		h.t.Fatalf("the job did not go on: exit %d\n%s", code, p.errs)
	}
	if got := digest(h.t, p.out.String()); got != want {
		h.t.Errorf("digest %s, undisturbed %s", got, want)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if len(left) > 0 {
		h.t.Errorf("left behind: %v", left)
	}
	h.clean()
	return p.errs.String()
}

func TestDiskFull(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	if err := syscall.Mount("gorun-test", dir, "tmpfs", 0, "size=16k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("mounting a small tmpfs: %v", err)
		}
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	h.failsAndGoesOn(dir, "no space left")
}

func TestReadOnlyFolder(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	if err := syscall.Mount("gorun-test", dir, "tmpfs", syscall.MS_RDONLY, "size=16k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("mounting a read-only tmpfs: %v", err)
		}
		t.Skipf("mounting a read-only tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	if errs := h.failsAndGoesOn(dir, "read-only"); !strings.Contains(errs, "-ckpt-dir") {
		t.Errorf("no warning at the start:\n%s", errs)
	}
}

// TestMovedSnapshot restarts from a snapshot that was copied elsewhere.
func TestMovedSnapshot(t *testing.T) {
	h := newHouse(t)
	want := digest(t, h.must(append([]string{"-np", "3"}, solver(shortRun...)...)...))
	schema := h.stopped("-cr=self", append([]string{"-np", "3"}, solver(append(shortRun, "-slow", "10ms")...)...))
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Dir(schema), moved); err != nil {
		t.Fatal(err)
	}
	if got := digest(t, h.must("restart", moved)); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	h.clean()
}
