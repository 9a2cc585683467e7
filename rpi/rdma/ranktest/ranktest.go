// Package ranktest tests jobs whose ranks speak over RDMA and whatever else: they are imaged with messages under way, killed, and go on over another fabric.
package ranktest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// Options say what to run.
type Options struct {
	Gorun, Program string     // paths; the program's main is that of package ranks
	Fabrics        [][]string // flags of gorun
	Records        string     // folder for gorun's records of running jobs; "": in the job's folder, which has to allow sockets then
	Restarts       int
	Seed           uint64 // chooses the fabrics, and when the images are made
}

// RDMA is the fabric of a provider's device.
func RDMA(provider, device string) []string {
	return []string{"-rpi", "rdma", "-param", "rdma.provider=" + provider, "-param", "rdma.device=" + device}
}

// TCP is the fabric of sockets.
var TCP = []string{"-rpi", "tcp"}

// Run runs a job, with as many restarts, each from the kill of all processes on. The first goes on over the fabric that the job began with; then each
// of the others has its turn.
func Run(t *testing.T, o Options) {
	t.Helper()
	j := newJob(t, o, t.TempDir())
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	order := rng.Perm(len(o.Fabrics))
	j.start(slices.Concat([]string{"run", "-np", "2", "-cr=native"}, o.Fabrics[order[0]], []string{o.Program, filepath.Join(j.dir, "end")})...)
	for i := range o.Restarts {
		j.rounds(1 + rng.IntN(20))
		snapshot := j.checkpoint()
		j.rounds(rng.IntN(20))
		j.kill()
		if i == len(order) {
			order = append(order, rng.IntN(len(o.Fabrics)))
		}
		j.start(slices.Concat([]string{"restart"}, o.Fabrics[order[i]], []string{snapshot})...)
	}
	j.finish()
}

// Leave runs a job in a folder, stops it with a snapshot, and writes that to a parcel.
func Leave(t *testing.T, o Options, dir, parcel string) {
	t.Helper()
	j := newJob(t, o, dir)
	j.start(slices.Concat([]string{"run", "-np", "2", "-cr=native"}, o.Fabrics[0], []string{o.Program, filepath.Join(dir, "end")})...)
	j.leave(parcel)
}

// Pass has the job of a parcel go on, in a folder of the same name, which may be on another machine, and leaves it again.
func Pass(t *testing.T, o Options, dir, parcel, next string) {
	t.Helper()
	j := newJob(t, o, dir)
	j.take(parcel)
	j.leave(next)
}

// Resume has the job of a parcel go on to its end, as Pass does.
func Resume(t *testing.T, o Options, dir, parcel string) {
	t.Helper()
	j := newJob(t, o, dir)
	j.take(parcel)
	j.finish()
}

// leave stops the job with a snapshot, and writes that to a parcel.
func (j *job) leave(parcel string) {
	j.t.Helper()
	j.rounds(5)
	snapshot := j.checkpoint("-stop")
	if err := j.cmd.Wait(); j.cmd.ProcessState.ExitCode() != checkpointed {
		j.t.Fatalf("%v\n%s", err, j.out)
	}
	if out, err := j.command("snapshots", "-export", parcel, snapshot).CombinedOutput(); err != nil {
		j.t.Fatalf("%v: %s", err, out)
	}
}

// take starts the job of a parcel.
func (j *job) take(parcel string) {
	j.t.Helper()
	out, err := j.command("snapshots", "-ckpt-dir", filepath.Join(j.dir, "snapshots"), "-import", parcel).CombinedOutput()
	if err != nil {
		j.t.Fatalf("%v: %s", err, out)
	}
	j.start(slices.Concat([]string{"restart"}, j.Fabrics[0], []string{strings.TrimSpace(string(out))})...)
}

// checkpointed is gorun's status after checkpoint -stop.
const checkpointed = 75

// finish ends the job, and looks whether all was right.
func (j *job) finish() {
	j.t.Helper()
	j.rounds(1)
	check(j.t, os.WriteFile(filepath.Join(j.dir, "end"), nil, 0o600))
	if err := j.cmd.Wait(); err != nil || strings.Count(j.out.String(), "are right") != 2 {
		j.t.Errorf("seed %d: %v\n%s", j.Seed, err, j.out)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// job is a job in a folder.
type job struct {
	Options
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out *said
}

func newJob(t *testing.T, o Options, dir string) *job {
	if o.Records == "" {
		o.Records = filepath.Join(dir, "run")
	}
	check(t, os.MkdirAll(o.Records, 0o700))
	check(t, os.MkdirAll(dir, 0o700))
	return &job{Options: o, t: t, dir: dir}
}

// said is what a job has said.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// command is gorun with these arguments.
func (j *job) command(args ...string) *exec.Cmd {
	cmd := exec.Command(j.Gorun, args...)
	cmd.Dir, cmd.Env = j.dir, append(os.Environ(), "XDG_RUNTIME_DIR="+j.Records, "GORUN_REALM="+j.Records, "HOME="+j.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts the job, or has it go on.
func (j *job) start(args ...string) {
	j.cmd, j.out = j.command(append([]string{args[0], "-ckpt-dir", filepath.Join(j.dir, "snapshots"), "-jobid-file", filepath.Join(j.dir, "job")}, args[1:]...)...), new(said)
	j.cmd.Stdout, j.cmd.Stderr = j.out, j.out
	check(j.t, j.cmd.Start())
	cmd := j.cmd
	j.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// round is what rank 0 says of each.
var round = regexp.MustCompile(`(?m)^round \d+$`)

// rounds waits for so many more, one after the other.
func (j *job) rounds(n int) {
	j.t.Helper()
	before := len(round.FindAllString(j.out.String(), -1))
	for i := range n {
		testenv.Until(j.t, func() string {
			text := j.out.String()
			if len(round.FindAllString(text, -1)) > before+i {
				return ""
			}
			return "too few rounds: " + text
		})
	}
}

// checkpoint takes a snapshot and gives its schema.
func (j *job) checkpoint(flags ...string) string {
	j.t.Helper()
	id, err := os.ReadFile(filepath.Join(j.dir, "job"))
	if err != nil {
		j.t.Fatalf("%v\nthe job: %s", err, j.out)
	}
	out, err := j.command(append(append([]string{"checkpoint"}, flags...), strings.TrimSpace(string(id)))...).CombinedOutput()
	schema := regexp.MustCompile(`\S+schema.toml`).FindString(string(out))
	if err != nil || schema == "" {
		j.t.Fatalf("%v: %s\nthe job: %s", err, out, j.out)
	}
	return schema
}

// kill ends all of the job at once, and waits for the end of each process.
func (j *job) kill() {
	check(j.t, j.cmd.Process.Kill())
	j.cmd.Wait()
	testenv.Until(j.t, func() string {
		all, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range all {
			if dir, err := os.Readlink(link); err == nil && dir == j.dir {
				return link + " is still there"
			}
		}
		return ""
	})
}
