package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// slow is a gorun-device that hangs in its loader, for as long as there is a file of the name that it is given. What hangs has its number there.
const slow = `#!/bin/sh
if [ "$1" = serve ] && [ -e %[1]s ]; then
	echo $$ >%[1]s
	exec sleep 1000
fi
exec %[2]s "$@"
`

// TestNeverBegins has offload processes hang before they have said a word: the program, a user and a restart are told, and nothing is left of them. What was
// swapped out stays, and comes in when it can.
func TestNeverBegins(t *testing.T) {
	j := newJobs(t)
	hangs := j.dir + "/hangs"
	fail(t, os.WriteFile(j.dir+"/slow", fmt.Appendf(nil, slow, hangs, j.dir+"/gorun-device"), 0o700))
	j.env = append(j.env, "GORUN_DEVICE_SERVER="+j.dir+"/slow")
	hang := func(limit string, args ...string) {
		fail(t, os.WriteFile(hangs, nil, 0o600))
		j.opens(limit).wantHang(limit, args...)
		fail(t, os.Remove(hangs))
	}
	program := []string{"./turns", "-steps", "300", "-pace", "10ms", "-hold", "on"}
	hang("100ms", append([]string{"-np", "1"}, program...)...)
	const ample = "5s" // for those that begin, on a busy machine
	id, wait := j.opens(ample).up(append([]string{"run", "-np", "1", "-cr=native"}, program...)...)
	j.until(id, regexp.MustCompile("process [0-9]+ running"))
	step{[]string{"swap-out", id}, true, "1 device(s) swapped out"}.do(j)
	step{[]string{"checkpoint", "-timeout", "60s", id}, true, "schema.toml"}.do(j)
	hang(ample, "swap-in", id)
	step{[]string{"swap-in", id}, true, "1 device(s) swapped in"}.do(j)
	fail(t, os.WriteFile(j.dir+"/on", nil, 0o600))
	out, err := wait()
	want := digestLine.FindString(out)
	if err != nil || want == "" {
		t.Fatalf("%v: %s", err, out)
	}
	restart := []string{"restart", "-ckpt-dir", j.dir + "/snapshots", id[:8]}
	hang("100ms", restart...)
	if out, err := j.run(restart...); err != nil || digestLine.FindString(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// opens is the jobs with another limit for opening a device.
func (j *jobs) opens(limit string) *jobs {
	with := *j
	with.env = append(j.env[:len(j.env):len(j.env)], "GORUN_DEVICE_OPEN="+limit)
	return &with
}

// wantHang wants a command to fail that starts a process which hangs, by name, and that process to be gone.
func (j *jobs) wantHang(limit string, args ...string) {
	j.t.Helper()
	out, err := j.run(args...)
	for _, want := range []string{"device " + j.id + ": its offload process, pid ", "has not begun within " + limit, "GORUN_DEVICE_OPEN=10m"} {
		if err == nil || !strings.Contains(out, want) {
			j.t.Errorf("%v: %v: no %q in %s", args, err, want, out)
		}
	}
	testenv.Until(j.t, func() string {
		pid, err := os.ReadFile(j.dir + "/hangs")
		if err == nil {
			_, err = os.Stat("/proc/" + strings.TrimSpace(string(pid)))
		}
		if err == nil {
			return "process " + string(pid) + " is left"
		}
		return ""
	})
}
