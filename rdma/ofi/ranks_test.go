package ofi

import (
	"bytes"
	"fmt"
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

	"github.com/gorun-mpi/gorun/internal/testenv"
)

// TestRanks runs a job whose ranks speak over libfabric. It is imaged with messages under way, killed, and goes on over the same or another of its
// providers, over soft, or over TCP, GORUN_OFI_RESTARTS times.
func TestRanks(t *testing.T) {
	if _, err := load(); err != nil {
		t.Skip(err)
	}
	j := &job{t: t, dir: t.TempDir()}
	check(t, os.Mkdir(filepath.Join(j.dir, "run"), 0o700))
	t.Cleanup(sweep)
	j.build()
	fabrics := [][]string{{"-rpi", "tcp"}, rdma("soft", "127.0.0.1")}
	for _, name := range everywhere {
		fabrics = append(fabrics, rdma("ofi", name))
	}
	seed := uint64(testenv.Number(t, "GORUN_OFI_SEED", 1))
	rng := rand.New(rand.NewPCG(seed, 0))
	order := rng.Perm(len(fabrics)) // in which each comes once, the first twice
	j.start(slices.Concat([]string{"run", "-np", "2", "-cr=native"}, fabrics[order[0]], []string{filepath.Join(j.dir, "ranks"), filepath.Join(j.dir, "end")})...)
	for i := range testenv.Number(t, "GORUN_OFI_RESTARTS", len(fabrics)) {
		j.rounds(1 + rng.IntN(20))
		snapshot := j.checkpoint()
		j.rounds(rng.IntN(20))
		j.kill()
		if i == len(order) {
			order = append(order, rng.IntN(len(fabrics)))
		}
		j.start(slices.Concat([]string{"restart"}, fabrics[order[i]], []string{snapshot})...)
	}
	j.rounds(1)
	if err := os.WriteFile(filepath.Join(j.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.cmd.Wait(); err != nil || strings.Count(j.out.String(), "are right") != 2 {
		t.Errorf("seed %d: %v\n%s", seed, err, j.out)
	}
}

func rdma(provider, device string) []string {
	return []string{"-rpi", "rdma", "-param", "rdma.provider=" + provider, "-param", "rdma.device=" + device}
}

// job is a job in a folder with gorun and its program.
type job struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out *said
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

// build builds gorun, and the program as that of a user: in a module of its own.
func (j *job) build() {
	root, err := filepath.Abs("../..")
	check(j.t, err)
	program := filepath.Join(j.dir, "program")
	check(j.t, os.CopyFS(program, os.DirFS("testdata/ranks")))
	const path = "github.com/gorun-mpi/gorun"
	mod := fmt.Sprintf("module ranks\n\ngo 1.25.0\n\nrequire (\n\t%s v0.0.0\n\t%[1]s/rdma/ofi v0.0.0\n)\n\nreplace (\n\t%[1]s => %s\n\t%[1]s/rdma/ofi => %[2]s/rdma/ofi\n)\n", path, root)
	check(j.t, os.WriteFile(filepath.Join(program, "go.mod"), []byte(mod), 0o600))
	var sums []byte
	for _, from := range []string{root, "."} {
		sum, err := os.ReadFile(filepath.Join(from, "go.sum"))
		check(j.t, err)
		sums = append(sums, sum...)
	}
	check(j.t, os.WriteFile(filepath.Join(program, "go.sum"), sums, 0o600))
	for in, args := range map[string][]string{root: {"-o", j.dir, "./cmd/gorun"}, program: {"-mod=mod", "-o", j.dir, "."}} {
		cmd := exec.Command("go", append([]string{"build"}, args...)...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			j.t.Fatalf("%v: %s", err, out)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command is gorun with these arguments.
func (j *job) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(j.dir, "gorun"), args...)
	cmd.Dir, cmd.Env = j.dir, append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(j.dir, "run"), "HOME="+j.dir)
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

// rounds waits for so many more.
func (j *job) rounds(n int) {
	j.t.Helper()
	round := regexp.MustCompile(`(?m)^round \d+$`)
	before := len(round.FindAllString(j.out.String(), -1))
	testenv.Until(j.t, func() string {
		text := j.out.String()
		if len(round.FindAllString(text, -1))-before >= n {
			return ""
		}
		return "too few rounds: " + text
	})
}

// checkpoint takes a snapshot and gives its schema.
func (j *job) checkpoint() string {
	j.t.Helper()
	id, err := os.ReadFile(filepath.Join(j.dir, "job"))
	if err != nil {
		j.t.Fatalf("%v\nthe job: %s", err, j.out)
	}
	out, err := j.command("checkpoint", strings.TrimSpace(string(id))).CombinedOutput()
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
