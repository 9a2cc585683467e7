package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
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

// steps are those of a job of the matrix.
var steps = []string{"-steps", "40", "-field", "field"}

// outcome is what a job has computed: integers, and numbers with a fraction.
type outcome struct {
	digest string
	field  []float64
}

// tolerance is by how much numbers may differ: see turns.
const tolerance = 2.4e-6

// is wants the integers to be the same, and the other numbers nearly so. It returns by how much they differ.
func (o *outcome) is(want *outcome) (off float64, err error) {
	if o.digest == "" || o.digest != want.digest || len(o.field) != len(want.field) || len(o.field) == 0 {
		return 0, fmt.Errorf("%q and %d numbers, not %q and %d", o.digest, len(o.field), want.digest, len(want.field))
	}
	for i, x := range o.field {
		off = max(off, math.Abs(x-want.field[i])) // not a number is off
		if !(math.Abs(x-want.field[i]) <= tolerance) {
			return off, fmt.Errorf("number %d is %v, not %v", i, x, want.field[i])
		}
	}
	return off, nil
}

// on runs gorun where a host is, and returns what the job has computed.
func (j *jobs) on(h *host, args ...string) (o outcome) {
	j.t.Helper()
	os.Remove(j.dir + "/field")
	cmd, out := j.command(args...)
	var err error
	cmd.Env, err = h.env(j.dir)
	fail(j.t, err)
	cmd.Env = append(cmd.Env, j.own...)
	if err := cmd.Run(); err != nil {
		j.t.Errorf("on %s: gorun %v: %v: %s", h.name, args, err, out)
		return o
	}
	text, err := os.ReadFile(j.dir + "/field")
	fail(j.t, err)
	for line := range strings.Lines(string(text)) {
		x, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		fail(j.t, err)
		o.field = append(o.field, x)
	}
	o.digest = digestLine.FindString(out.String())
	return o
}

// few is three hosts of the matrix: another number of devices, of another kind, each.
func few(j *jobs) []*host {
	program := []string{filepath.Join(j.dir, "turns")}
	return []*host{
		{"Go x 2", "cpu:0", "", "", 2, program},
		{"PoCL pthread x 4", "opencl:0", "pocl", "pthread", 4, program},
		{"PoCL basic x 1", "opencl:0", "pocl", "basic", 1, program},
	}
}

// TestMatrix has jobs write a portable image on each host, and go on from it on each other: with other devices, another number of them, and
// another architecture. All end with the same bits where the kernel is one of integers, and within its tolerance where it has fractions. GORUN_DEVICE_MATRIX=21 is the whole
// matrix; with a smaller number there are so many restarts from each host, spread over all; without it three hosts, a restart of each.
func TestMatrix(t *testing.T) {
	restarts := testenv.Number(t, "GORUN_DEVICE_MATRIX", 0)
	if restarts == 0 && os.Getenv("GORUN_DEVICE_TESTS") != "" {
		t.Skip("three hosts are of PoCL: set GORUN_DEVICE_MATRIX for the devices of GORUN_DEVICE_TESTS")
	}
	if j := newJobs(t); restarts > 0 {
		j.matrix(hosts(t, j), restarts)
	} else {
		j.matrix(few(j), 1)
	}
}

func (j *jobs) matrix(all []*host, restarts int) {
	restarts = min(restarts, len(all))
	var want *outcome
	pairs, most := 0, 0.0
	same := func(what string, got outcome) bool {
		if want == nil {
			want = &got
		}
		off, err := got.is(want)
		if err != nil {
			j.t.Errorf("%s: %v", what, err)
		}
		most = max(most, off)
		return err == nil
	}
	for i, from := range all {
		if testenv.Late(j.t) {
			break
		}
		id := filepath.Join(j.dir, "id")
		run := []string{"-np", "2", "-cr=self", "-ckpt-dir", j.dir + "/snapshots", "-ckpt-points", "15", "-keep", "1", "-jobid-file", id}
		if !same("on "+from.name, j.on(from, slices.Concat(run, from.program, steps)...)) {
			return
		}
		text, err := os.ReadFile(id)
		fail(j.t, err)
		for n := range restarts {
			to := all[(i+1+4*n)%len(all)] // 4 and 21 have no factor in common
			same("from "+from.name+" on "+to.name, j.on(to, slices.Concat([]string{"restart", "-ckpt-dir", j.dir + "/snapshots", string(text[:8]), "--"}, to.program, steps)...))
			pairs++
		}
		j.t.Logf("from %s on %d hosts", from.name, restarts)
	}
	j.t.Logf("%d restarts; numbers differ by %.2g, and may by %.2g", pairs, most, tolerance)
}
