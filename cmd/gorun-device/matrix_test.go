package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/internal/testenv"
)

// host is where a job of the matrix runs: a kind of device, or another architecture.
type host struct {
	name    string
	device  string   // its ID
	tested  string   // the library of cltest that it is of, if it is of one
	pocl    string   // its kind of device
	devices int      // 1, 2 or 4
	program []string // an emulator, if any, and the program
}

// env makes the devices of a host those of a job.
func (h *host) env(dir string) ([]string, error) {
	env := os.Environ()
	if h.tested != "" {
		var err error
		if env, err = cltest.Environment(dir, h.tested); err != nil {
			return nil, err
		}
	}
	ids := strings.Repeat(h.device+",", h.devices)
	if h.pocl != "" { // there may be any number
		env = append(env, "POCL_DEVICES="+strings.Repeat(h.pocl+" ", h.devices))
		ids = ""
		for i := range h.devices {
			ids += fmt.Sprintf("opencl:%d,", i)
		}
	}
	return append(env, "GORUN_DEVICE="+strings.TrimSuffix(ids, ",")), nil
}

// hosts is the matrix.
func hosts(t *testing.T, j *jobs) (all []*host) {
	add := func(name, device, tested, pocl string, program ...string) {
		for _, n := range []int{1, 2, 4} {
			all = append(all, &host{fmt.Sprintf("%s x %d", name, n), device, tested, pocl, n, program})
		}
	}
	here := filepath.Join(j.dir, "turns")
	add("Go", "cpu:0", "", "", here)
	if ids := os.Getenv("GORUN_DEVICE_TESTS"); ids != "" {
		for id := range strings.SplitSeq(ids, ",") {
			add(id, id, "", "", here)
		}
		return all
	}
	add("PoCL basic", "opencl:0", "pocl", "basic", here)
	add("PoCL pthread", "opencl:0", "pocl", "pthread", here)
	add("Oclgrind", "opencl:0", "oclgrind", "", here)
	add("rusticl", "opencl:0", "rusticl", "", here)
	for _, foreign := range [][2]string{{"arm64", "qemu-aarch64-static"}, {"s390x", "qemu-s390x-static"}} {
		arch, emulator := foreign[0], foreign[1]
		if _, err := exec.LookPath(emulator); err != nil {
			t.Fatalf("%v: install qemu-user-static", err)
		}
		build := exec.Command("go", "build", "-o", filepath.Join(j.dir, arch, "turns"), "./internal/turns")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		add("Go on "+arch, "cpu:0", "", "", emulator, filepath.Join(j.dir, arch, "turns"))
	}
	return all
}

// on runs gorun where a host is, and returns the digest.
func (j *jobs) on(h *host, args ...string) (digest string) {
	j.t.Helper()
	cmd, out := j.command(args...)
	var err error
	cmd.Env, err = h.env(j.dir)
	fail(j.t, err)
	cmd.Env = append(cmd.Env, j.own...)
	if err := cmd.Run(); err != nil {
		j.t.Errorf("on %s: gorun %v: %v: %s", h.name, args, err, out)
		return ""
	}
	return digestLine.FindString(out.String())
}

// TestMatrix has jobs write a portable image on each host, and go on from it on each other: with other devices, another number of them, and
// another architecture. All end with the same bits, as the kernel is one of integers. GORUN_DEVICE_MATRIX=21 is the whole
// matrix; with a smaller number there are so many restarts from each host, spread over all.
func TestMatrix(t *testing.T) {
	restarts := testenv.Number(t, "GORUN_DEVICE_MATRIX", 0)
	if restarts == 0 {
		t.Skip("a restart takes seconds of processor time: set GORUN_DEVICE_MATRIX to 21")
	}
	j := newJobs(t)
	all := hosts(t, j)
	restarts = min(restarts, len(all))
	want, pairs := "", 0
	for i, from := range all {
		if testenv.Late(t) {
			break
		}
		id := filepath.Join(j.dir, "id")
		got := j.on(from, append([]string{"-np", "2", "-cr=self", "-ckpt-dir", j.dir + "/snapshots", "-ckpt-points", "15", "-jobid-file", id}, append(from.program, "-steps", "40")...)...)
		if want == "" {
			want = got
		}
		if got != want || got == "" {
			t.Fatalf("on %s: %q, not %q", from.name, got, want)
		}
		text, err := os.ReadFile(id)
		fail(t, err)
		for n := range restarts {
			to := all[(i+1+4*n)%len(all)] // 4 and 21 have no factor in common
			if got := j.on(to, append([]string{"restart", "-ckpt-dir", j.dir + "/snapshots", string(text[:8]), "--"}, append(to.program, "-steps", "40")...)...); got != want {
				t.Errorf("from %s on %s: %q, not %q", from.name, to.name, got, want)
			}
			pairs++
		}
		t.Logf("from %s on %d hosts", from.name, restarts)
	}
	t.Logf("%d restarts", pairs)
}
