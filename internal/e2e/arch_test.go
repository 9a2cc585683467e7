package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// foreign names the emulators of the other supported byte order and
// architecture (Debian: qemu-user-static).
var foreign = map[string]string{"arm64": "qemu-aarch64-static", "s390x": "qemu-s390x-static"}

// machine is one architecture on which the solver can run.
type machine struct {
	arch    string
	program []string // emulator, if any, and solver
}

func machines(t *testing.T) []machine {
	ms := []machine{{"amd64", []string{filepath.Join(bin, "solver")}}}
	for arch, emulator := range foreign {
		if _, err := exec.LookPath(emulator); err != nil {
			t.Skipf("%s is not installed (Debian: qemu-user-static)", emulator)
		}
		ms = append(ms, machine{arch, []string{emulator, foreignProgram(t, arch, "solver")}})
	}
	return ms
}

// foreignProgram builds an example for another architecture.
func foreignProgram(t *testing.T, arch, name string) string {
	dir := filepath.Join(bin, arch)
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		if err := build(dir, append(os.Environ(), "GOARCH="+arch), name); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name)
}

// TestArchitectures checkpoints on each architecture and restarts on each other:
// every run ends with the same bits.
func TestArchitectures(t *testing.T) {
	if os.Getenv("GORUN_PORTS") == "" {
		t.Skip("emulates other machines: set GORUN_PORTS=1")
	}
	h := newHouse(t)
	problem := []string{"-poisson", "8", "-iters", "60", "-tol", "0"}
	var want string
	ms := machines(t)
	for _, m := range ms {
		got := digest(t, h.must(append(append([]string{"-np", "3"}, m.program...), problem...)...))
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("undisturbed on %s: digest %s, on %s %s", m.arch, got, ms[0].arch, want)
		}
	}
	for _, from := range ms {
		schema := h.stopped("-cr=self", append(append([]string{"-np", "3"}, from.program...), append(problem, "-slow", "20ms")...))
		for _, to := range ms {
			out := h.must(append(append([]string{"restart", schema, "--"}, to.program...), problem...)...)
			if got := digest(t, out); got != want {
				t.Errorf("checkpointed on %s, restarted on %s: digest %s, undisturbed %s", from.arch, to.arch, got, want)
			}
		}
	}
	h.clean()
}

// stopped starts a run with checkpoints on, checkpoints and stops it, and
// returns the schema's path.
func (h *house) stopped(cr string, args []string) string {
	h.t.Helper()
	file := filepath.Join(h.run, "id")
	os.Remove(file)
	p := h.start(append([]string{cr, "-jobid-file", file}, args...)...)
	schema := strings.TrimSpace(h.must("checkpoint", "-stop", jobID(h.t, p, file)))
	if code := p.wait(); code != 75 {
		h.t.Fatalf("checkpointed and stopped, but exit %d\n%s", code, p.errs)
	}
	if out := p.out.String(); strings.Contains(out, "result") {
		h.t.Fatalf("a stopped job went on to its end: %s", out)
	}
	return schema
}

// TestMixedByteOrdersAreRefused runs one rank on a big-endian machine.
func TestMixedByteOrdersAreRefused(t *testing.T) {
	if os.Getenv("GORUN_PORTS") == "" {
		t.Skip("emulates other machines: set GORUN_PORTS=1")
	}
	emulator := foreign["s390x"]
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skipf("%s is not installed (Debian: qemu-user-static)", emulator)
	}
	h := newHouse(t)
	script := filepath.Join(h.run, "mixed")
	text := fmt.Sprintf("#!/bin/sh\nif mkdir %[1]s.first 2>/dev/null; then exec %[2]s %[3]s; fi\nexec %[4]s\n",
		script, emulator, foreignProgram(t, "s390x", "ring"), filepath.Join(bin, "ring"))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	_, errs, code := h.gorun("-np", "3", script)
	if code == 0 || !strings.Contains(errs, "s390x") || !strings.Contains(errs, "endian") {
		t.Fatalf("exit %d, stderr:\n%s", code, errs)
	}
	h.clean()
}
