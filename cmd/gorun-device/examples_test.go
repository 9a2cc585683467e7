package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/device"
)

// TestExamples has the example programs print the same with goroutines, with one device of OpenCL, and with two, which may be of two libraries.
func TestExamples(t *testing.T) {
	ids := program(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/", "./examples/floyd", "./examples/spmv", "./examples/summa", "./examples/waves", "./examples/apps/npb/ftdevices", "./examples/apps/npb/mgdevices")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	places := []string{"cpu:0", ids[0]}
	if len(ids) > 1 {
		places = append(places, ids[0]+","+ids[len(ids)-1])
	}
	for _, args := range []string{"floyd -n 16", "spmv -n 60 -steps 5", "summa -n 16 -width 8 -devices 2", "waves -n 16 -steps 4"} {
		want := ""
		for _, on := range places {
			words := strings.Fields(args)
			c := exec.Command(filepath.Join(dir, words[0]), words[1:]...)
			c.Env = append(os.Environ(), "GORUN_DEVICE="+on)
			c.Stderr = os.Stderr
			out, err := c.Output()
			if err != nil || !strings.HasSuffix(string(out), "Verification: SUCCESSFUL\n") || want != "" && string(out) != want {
				t.Errorf("%s on %s: %v: it prints\n%swith goroutines\n%s", args, on, err, out, want)
			}
			if want == "" {
				want = string(out)
			}
		}
	}
	for _, name := range []string{"ftdevices", "mgdevices"} { // in double precision, which not all have; they print how long they take
		c := exec.Command(filepath.Join(dir, name), "S")
		c.Env = append(os.Environ(), "GORUN_DEVICE="+fast(t))
		if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "Verification: SUCCESSFUL\n") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// fast is the ID of a device that compiles its kernels, if there is one: Oclgrind interprets them.
func fast(t *testing.T) string {
	all, err := device.List()
	fail(t, err)
	for _, info := range all {
		if info.Platform != "Oclgrind" {
			return info.ID
		}
	}
	return all[0].ID
}
