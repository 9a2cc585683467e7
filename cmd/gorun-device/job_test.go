package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
)

// jobs runs jobs of examples/floyd on devices, in a folder with gorun, gorun-device and the program. The devices are PoCL's two, or
// the first that GORUN_DEVICE_TESTS names ("cuda:0"), which is real then, and both. Others that it names are hosts of the matrix.
type jobs struct {
	t     *testing.T
	dir   string
	own   []string // what is not the devices' in env
	env   []string
	id    string // of the device that jobs begin with
	other string // one that they can move to
}

func newJobs(t *testing.T) *jobs {
	j := &jobs{t: t, dir: t.TempDir()}
	j.id, _, _ = strings.Cut(os.Getenv("GORUN_DEVICE_TESTS"), ",")
	j.other = j.id
	env := os.Environ()
	if j.id == "" {
		cltest.Need(t)
		j.id, j.other = "opencl:0", "opencl:1"
		var err error
		env, err = cltest.Environment(t.TempDir(), "pocl") // Oclgrind would take minutes
		fail(t, err)
	}
	built.once.Do(build)
	fail(t, built.err)
	for _, name := range []string{"gorun", "gorun-device", "floyd", "turns"} {
		fail(t, os.Link(filepath.Join(built.dir, name), filepath.Join(j.dir, name)))
	}
	fail(t, os.Mkdir(j.dir+"/run", 0o700))
	j.own = []string{"GORUN_DEVICE_SERVER=" + j.dir + "/gorun-device", "XDG_RUNTIME_DIR=" + j.dir + "/run", "GORUN_REALM=" + j.dir, "HOME=" + j.dir}
	j.env = append(append(env, "GORUN_DEVICE="+j.id), j.own...)
	return j
}

// built is a folder with the programs, for all tests. TestMain removes it, unless they were built before: machines with accelerators may have no Go.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func build() {
	if built.dir = os.Getenv("GORUN_DEVICE_PROGRAMS"); built.dir != "" {
		return
	}
	if built.dir, built.err = os.MkdirTemp("", "gorun-device-test"); built.err != nil {
		return
	}
	for dir, what := range map[string][]string{"../..": {"./cmd/gorun", "./examples/floyd"}, ".": {"./internal/turns", "."}} {
		build := exec.Command("go", append([]string{"build", "-o", built.dir + "/"}, what...)...)
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	}
}

// command is gorun with these arguments.
func (j *jobs) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(filepath.Join(j.dir, "gorun"), args...)
	out := new(bytes.Buffer)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = j.dir, j.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, out
}

func (j *jobs) run(args ...string) (string, error) {
	cmd, out := j.command(args...)
	defer j.within().Stop()
	err := cmd.Run()
	return out.String(), err
}

// start starts a job and returns its id when its ranks are up.
func (j *jobs) start(args ...string) (id string, wait func() (string, error)) {
	return j.up(append([]string{"run", "-np", "2", "-cr=native"}, args...)...)
}

// up has a command of gorun start a job, or go on with one.
func (j *jobs) up(args ...string) (id string, wait func() (string, error)) {
	file := filepath.Join(j.dir, "job")
	os.Remove(file)
	cmd, out := j.command(append([]string{args[0], "-ckpt-dir", j.dir + "/snapshots", "-jobid-file", file}, args[1:]...)...)
	fail(j.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	j.t.Cleanup(func() { cmd.Process.Kill() })
	for len(id) == 0 {
		select {
		case err := <-ended:
			j.t.Fatalf("%v: %s", err, out)
		case <-time.After(10 * time.Millisecond):
		}
		text, _ := os.ReadFile(file)
		id = strings.TrimSpace(string(text))
	}
	return id, func() (string, error) {
		defer j.within().Stop()
		err := <-ended
		return out.String(), err
	}
}

// processes waits until each rank has its offload process, and returns their numbers.
func (j *jobs) processes(id string) (pids []int) {
	for len(pids) < 2 {
		out, err := j.run("status", id)
		if err != nil {
			j.t.Fatalf("%v: %s", err, out)
		}
		pids = nil
		for _, m := range regexp.MustCompile(`device \w+:\d: process (\d+) running`).FindAllStringSubmatch(out, -1) {
			pid, _ := strconv.Atoi(m[1])
			pids = append(pids, pid)
		}
	}
	return pids
}

// nodes is how many a job of floyd has: an accelerator would be done before anything could be asked of a small one.
func (j *jobs) nodes(n int) string {
	if os.Getenv("GORUN_DEVICE_TESTS") != "" {
		n *= 10
	}
	return strconv.Itoa(n)
}

// kind is that of the devices, and number that of one.
func (j *jobs) kind() string { kind, _, _ := strings.Cut(j.id, ":"); return kind }

func number(id string) string { _, n, _ := strings.Cut(id, ":"); return n }

const right = "Verification: SUCCESSFUL"

// TestJobs images a job with devices whole, in the middle of its kernels, and goes on: in the same processes, and from the snapshot on another device. One without
// that device is refused by name.
func TestJobs(t *testing.T) {
	j := newJobs(t)
	id, wait := j.start("./floyd", "-n", j.nodes(1000))
	j.processes(id)
	if out, err := j.run("checkpoint", "-timeout", "60s", id); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := wait(); err != nil || !strings.Contains(out, right) {
		t.Fatalf("%v: %s", err, out)
	}
	snapshot, kind := id[:8], j.kind()
	out, err := j.run("restart", "-v", "-ckpt-dir", j.dir+"/snapshots", "-device", j.other, snapshot)
	if err != nil || !strings.Contains(out, right) {
		t.Errorf("%v: %s", err, out)
	}
	if phases := regexp.MustCompile(`rank [01]: restored: reading \S+, host \S+, devices \S+; computing`); len(phases.FindAllString(out, -1)) != 2 {
		j.t.Errorf("the phases are not told: %s", out)
	}
	out, err = j.run("restart", "-ckpt-dir", j.dir+"/snapshots", "-device", kind+":77", snapshot)
	if err == nil || !strings.Contains(out, "no device "+kind+":77") || !strings.Contains(out, "gorun restart -device") {
		t.Errorf("%v: %s", err, out)
	}
	j.losesProcess()
	j.swaps()
}

// step is a command of gorun, and what it has to say.
type step struct {
	args []string
	ok   bool
	want string
}

func (s step) do(j *jobs) {
	j.t.Helper()
	if out, err := j.run(s.args...); (err == nil) != s.ok || !strings.Contains(out, s.want) {
		j.t.Errorf("%v: %v: %s", s.args, err, out)
	}
}

// swaps moves, swaps out and swaps in what a running job has on its devices. What cannot be done is named.
func (j *jobs) swaps() {
	id, wait := j.start("./floyd", "-n", j.nodes(1000))
	stopped := j.processes(id)[0] // it answers nobody
	fail(j.t, syscall.Kill(stopped, syscall.SIGSTOP))
	step{[]string{"swap-out", id, "-rank", "0", "-timeout", "1ms"}, false, "it does not answer"}.do(j)
	fail(j.t, syscall.Kill(stopped, syscall.SIGCONT))
	for _, step := range []step{
		{[]string{"migrate", id, "-device", number(j.id), "-to", number(j.other)}, true, "2 device(s) moved"},
		{[]string{"swap-out", id, "-device", j.kind() + ":9"}, false, "no rank has such a device"},
		{[]string{"swap-out", id}, true, "2 device(s) swapped out"},
		{[]string{"swap-out", id}, false, "that is not swapped out"},
		{[]string{"status", id}, true, "device " + j.other + ": swapped out"},
		{[]string{"checkpoint", "-timeout", "60s", id}, true, "schema.toml"},
		{[]string{"swap-in", id, "-device", "77"}, false, "no device " + j.kind() + ":77"},
		{[]string{"swap-in", id, "-rank", "1", "-device", "0"}, true, "1 device(s) swapped in"},
		{[]string{"swap-in", id}, true, "1 device(s) swapped in"},
	} {
		step.do(j)
	}
	if out, err := wait(); err != nil || !strings.Contains(out, right) {
		j.t.Errorf("%v: %s", err, out)
	}
}

// losesProcess kills an offload process: it is named, and the job goes on from its snapshot.
func (j *jobs) losesProcess() {
	id, wait := j.start("-restarts", "1", "./floyd", "-n", j.nodes(1000))
	j.processes(id)
	if out, err := j.run("checkpoint", "-timeout", "60s", id); err != nil {
		j.t.Fatalf("%v: %s", err, out)
	}
	fail(j.t, syscall.Kill(j.processes(id)[1], syscall.SIGKILL))
	out, err := wait()
	if err != nil || !strings.Contains(out, right) || !strings.Contains(out, "the offload process of device "+j.id) || !strings.Contains(out, "signal: killed") {
		j.t.Errorf("%v: %s", err, out)
	}
}
