package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// sharers starts two jobs of one rank each, with arrays of .7 of a device's memory.
func (j *jobs) sharers() (ids [2]string, waits [2]func() (string, error)) {
	nodes := j.nodes(3600)
	n, err := strconv.Atoi(nodes)
	fail(j.t, err)
	j.env = append(j.env, fmt.Sprintf("GORUN_DEVICE_MEMORY=%d", int(float64(4*n*(n+1))/.7)))
	for i := range ids {
		ids[i], waits[i] = j.start("-np", "1", "-devices", "share", "./floyd", "-n", nodes, "-devices", "1")
	}
	return ids, waits
}

// until waits until gorun status says something of a job.
func (j *jobs) until(id string, re *regexp.Regexp) string {
	j.t.Helper()
	for {
		out, err := j.run("status", id)
		if err != nil {
			j.t.Fatalf("%v: %s", err, out)
		}
		if m := re.FindStringSubmatch(out); m != nil {
			return m[len(m)-1]
		}
	}
}

// TestShared has two jobs use one device by turns that has room for one of them. In the middle both are checkpointed, whoever is swapped out, killed, and restarted at the
// same time: then all is swapped out, and who has something to do comes in. Both end right, and nothing is left. GORUN_DEVICE_SHARED says how often.
func TestShared(t *testing.T) {
	times := testenv.Number(t, "GORUN_DEVICE_SHARED", 0)
	if times == 0 {
		t.Skip("it takes half a minute: set GORUN_DEVICE_SHARED to how often")
	}
	for range times {
		if testenv.Late(t) {
			return
		}
		j := newJobs(t)
		ids, waits := j.sharers()
		j.until(ids[1], regexp.MustCompile("running"))
		j.until(ids[0], regexp.MustCompile("device "+j.id+": swapped out"))
		for _, s := range []step{ // what is out by turns stays out when a user says so, and comes back
			{[]string{"swap-out", ids[0]}, true, "1 device(s) swapped out"},
			{[]string{"swap-out", ids[0]}, false, "no rank has such a device"},
			{[]string{"swap-in", ids[0]}, true, "1 device(s) swapped in"},
		} {
			s.do(j)
		}
		j.until(ids[0], regexp.MustCompile("device "+j.id+": swapped out"))
		step{[]string{"migrate", ids[0], "-device", number(j.id), "-to", number(j.other)}, true, "1 device(s) moved"}.do(j)
		step{[]string{"migrate", ids[0], "-device", number(j.other), "-to", number(j.id)}, true, "1 device(s) moved"}.do(j)
		pid := regexp.MustCompile(`(?m)^\s+0\s+pid (\d+) on`)
		for i, id := range ids {
			if out, err := j.run("checkpoint", "-timeout", "60s", id); err != nil {
				t.Fatalf("job %d: %v: %s", i, err, out)
			}
		}
		for i, id := range ids {
			var rank int
			fmt.Sscan(j.until(id, pid), &rank)
			fail(t, syscall.Kill(rank, syscall.SIGKILL))
			if out, err := waits[i](); err == nil {
				t.Fatalf("job %d has ended well without its rank: %s", i, out)
			}
		}
		j.again(ids)
		if left, err := filepath.Glob(j.dir + "/run/gorun-devices"); err != nil || left != nil {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// again restarts the jobs, and wants them to end right.
func (j *jobs) again(ids [2]string) {
	outs, errs := [2]string{}, [2]error{}
	done := make(chan struct{})
	for i, id := range ids {
		go func() {
			outs[i], errs[i] = j.run("restart", "-ckpt-dir", j.dir+"/snapshots", id[:8])
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	for i := range ids {
		if errs[i] != nil || !strings.Contains(outs[i], right) {
			j.t.Errorf("job %d: %v: %s", i, errs[i], outs[i])
		}
	}
}

// TestExclusive has the second rank refused by name.
func TestExclusive(t *testing.T) {
	j := newJobs(t)
	out, err := j.run("-np", "2", "-devices", "exclusive", "./turns", "-steps", "1000000")
	if err == nil || !strings.Contains(out, "has it for itself (-devices exclusive)") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(j.dir + "/run/gorun-devices"); err == nil {
		t.Error("a seat is left")
	}
}

// TestLeaves has a command say that a device is to be left, and then the node; and ranks move with their device to another one.
func TestLeaves(t *testing.T) {
	if testenv.Number(t, "GORUN_DEVICE_SHARED", 0) == 0 {
		t.Skip("it takes half a minute: set GORUN_DEVICE_SHARED")
	}
	j := newJobs(t)
	id, wait := j.start("-migrate-on", "until [ -e ill ]; do sleep 0.05; done; echo device 0 '# hot'; echo nodes; echo node; exit 3", "./floyd", "-n", "2500")
	j.processes(id)
	fail(t, os.WriteFile(j.dir+"/ill", nil, 0o600))
	j.until(id, regexp.MustCompile("device opencl:1: process"))
	out, err := j.run("migrate", id, "-device", "1", "-to", "0@localhost")
	if err != nil || !strings.Contains(out, "in other processes on this machine") {
		t.Errorf("%v: %s", err, out)
	}
	j.until(id, regexp.MustCompile("device opencl:0: process"))
	out, err = wait()
	for _, want := range []string{right, "device 0 # hot: 2 device(s) moved to " + j.other, `"nodes" is not to be understood`, "there is nowhere to go", "exit status 3: this node is not watched any more"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: no %q in %s", err, want, out)
		}
	}
}
