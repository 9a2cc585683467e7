package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/internal/testing/nodelab"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// cluster is a lab of nodes with gorun, gorun-device and turns in its shared folder, and PoCL's two devices on each node.
type cluster struct {
	*nodelab.Lab
	t   *testing.T
	env []string
}

func newCluster(t *testing.T, nodes int) *cluster {
	cltest.Need(t)
	c := &cluster{nodelab.Up(t, nodes), t, nil}
	built.once.Do(build)
	fail(t, built.err)
	for _, name := range []string{"gorun", "gorun-device", "turns"} {
		text, err := os.ReadFile(filepath.Join(built.dir, name))
		fail(t, err)
		fail(t, os.WriteFile(c.file(name), text, 0o755))
	}
	all, err := cltest.Environment(c.Shared(), "pocl")
	fail(t, err)
	for _, v := range all[len(os.Environ()):] {
		if !strings.HasPrefix(v, "TMPDIR=") { // each node has its own
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, "GORUN_DEVICE=opencl:0", "GORUN_DEVICE_SERVER="+c.file("gorun-device"))
	return c
}

func (c *cluster) file(name string) string { return filepath.Join(c.Shared(), name) }

// command is gorun on n1.
func (c *cluster) command(args ...string) *exec.Cmd {
	cmd := c.Command("n1", append([]string{c.file("gorun")}, args...)...)
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

// run runs gorun to its end.
func (c *cluster) run(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// start starts a job, and returns its id when it is up.
func (c *cluster) start(args ...string) (id string, wait func() string) {
	file := c.file("id")
	cmd, out := c.command(append([]string{"run", "-jobid-file", file}, args...)...), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	fail(c.t, cmd.Start())
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	c.t.Cleanup(func() { cmd.Process.Kill() })
	testenv.Until(c.t, func() string {
		text, _ := os.ReadFile(file)
		if id = strings.TrimSpace(string(text)); id == "" {
			return "the job is not up"
		}
		return ""
	})
	return id, func() string {
		if err := <-over; err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
		return out.String()
	}
}

// TestMigratesToAnotherNode has ranks go to another device of another node while they run, with what is on theirs, and back: others that have no such device stay
// where they are. The result is that of a run that stays.
func TestMigratesToAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("a lab of nodes is made for it")
	}
	c := newCluster(t, 3)
	want := digestLine.FindString(c.run("-np", "3", c.file("turns"), "-steps", "300"))
	id, wait := c.start("-hosts", "n1:2,n2:1,n3:2", "-spares", "1", "-np", "3", "-cr=native", "-ckpt-dir", c.file("snapshots"), c.file("turns"), "-steps", "300", "-pace", "10ms", "-hold", c.file("on"))
	c.awaits(id, "n1 opencl:0", "n1 opencl:0", "n2 opencl:0")
	c.run("migrate", id, "-ranks", "2", "-device", "0", "-to", "1")
	c.awaits(id, "n1 opencl:0", "n1 opencl:0", "n2 opencl:1")
	out, err := c.command("migrate", id, "-device", "0", "-to", "77@n3").CombinedOutput()
	for _, says := range []string{"the ranks are where they were", "no device opencl:77", "choose another by gorun migrate -to ID@NODE"} {
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("to a device that is not there: %v: no %q in %s", err, says, out)
		}
	}
	c.awaits(id, "n1 opencl:0", "n1 opencl:0", "n2 opencl:1")
	if out := c.run("migrate", id, "-device", "0", "-to", "1@n3"); !strings.Contains(out, "ranks 0,1 on n3") {
		t.Errorf("migrate says %s", out)
	}
	c.awaits(id, "n3 opencl:1", "n3 opencl:1", "n2 opencl:1")
	c.run("migrate", id, "-ranks", "0", "-device", "1", "-to", "0@n1")
	c.awaits(id, "n1 opencl:0", "n3 opencl:1", "n2 opencl:1")
	if left := c.Exec("n1", "pgrep", "-c", "-f", "gorun-device serve"); strings.TrimSpace(left) != "1" {
		t.Errorf("%s offload processes are on n1", left)
	}
	fail(t, os.WriteFile(c.file("on"), nil, 0o644))
	if out := wait(); want == "" || digestLine.FindString(out) != want {
		t.Errorf("%s, undisturbed %s", out, want)
	}
	c.Idle(time.Minute, c.Nodes()...)
}

var placeLine = regexp.MustCompile(`(?m)^\s+\d+\s+pid \d+ on (\w+),(?s:.*?)device (\w+:\d): process \d+ running`)

// awaits waits until gorun status tells nodes and devices, by rank.
func (c *cluster) awaits(id string, want ...string) {
	c.t.Helper()
	testenv.Until(c.t, func() string {
		out := c.run("status", id)
		var got []string
		for _, m := range placeLine.FindAllStringSubmatch(out, -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if strings.Join(got, ",") != strings.Join(want, ",") {
			return out
		}
		return ""
	})
}
