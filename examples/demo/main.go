// Command demo shows the whole product in half a minute. It builds gorun and two programs: solver, which names
// its state (-cr=self), and heat, which knows nothing of checkpoints (-cr=native). It runs each program
// undisturbed. Then it runs it again with checkpoints on, takes one, kills a rank with kill -9, and restarts
// from the snapshot. It compares the two results bit by bit.
//
//	go run ./examples/demo
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/cr/native"
)

func main() {
	np := flag.Int("np", 4, "number of ranks")
	matrix := flag.String("matrix", "", "Matrix Market file to solve (default: a 3-D Poisson problem)")
	flag.Parse()
	dir, err := os.MkdirTemp("", "gorun-demo-")
	if err == nil {
		err = (&demo{dir: dir, np: *np}).run(*matrix)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demo struct {
	dir string
	np  int
}

func (d *demo) run(matrix string) error {
	if err := os.Mkdir(filepath.Join(d.dir, "run"), 0o700); err != nil {
		return err
	}
	say("building gorun and the programs")
	for _, pkg := range []string{"cmd/gorun", "examples/solver", "examples/heat"} {
		build := exec.Command("go", "build", "-o", d.dir, "github.com/gorun-mpi/gorun/"+pkg)
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building %s: %w", pkg, err)
		}
	}
	problem := []string{"-poisson", "24"}
	if matrix != "" {
		problem = []string{"-matrix", matrix}
	}
	err := d.story("self", append(append([]string{filepath.Join(d.dir, "solver")}, problem...), "-iters", "300", "-tol", "0"), "-slow", "10ms")
	if err != nil {
		return err
	}
	if err := (native.Imager{}).Supported(); err != nil {
		say("no images of whole processes here: %v", err)
		return nil
	}
	return d.story("native", []string{filepath.Join(d.dir, "heat"), "-n", "512", "-steps", "8000"})
}

// story runs a program twice, the second time with extra arguments and an
// interruption, and compares.
func (d *demo) story(backend string, program []string, extra ...string) error {
	want, err := d.undisturbed(program)
	if err != nil {
		return err
	}
	schema, err := d.interrupted(backend, append(program, extra...))
	if err != nil {
		return err
	}
	say("restarting from the snapshot: gorun restart %s", filepath.Base(filepath.Dir(schema)))
	out, err := d.gorun("restart", schema)
	if err != nil {
		return err
	}
	got, err := digest(out)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the restarted run ended with digest %s, the undisturbed one with %s", got, want)
	}
	say("verified: both runs end with digest %s, bit by bit", got)
	return nil
}

func (d *demo) undisturbed(program []string) (string, error) {
	say("undisturbed run: gorun -np %d %s %s", d.np, filepath.Base(program[0]), strings.Join(program[1:], " "))
	out, err := d.gorun(append([]string{"-np", strconv.Itoa(d.np)}, program...)...)
	if err != nil {
		return "", err
	}
	return digest(out)
}

// interrupted starts a run, takes a checkpoint, kills a rank and returns the
// path of the snapshot's schema.
func (d *demo) interrupted(backend string, program []string) (string, error) {
	say("the same with checkpoints on: gorun -np %d -cr=%s %s ...", d.np, backend, filepath.Base(program[0]))
	id := filepath.Join(d.dir, "id-"+backend)
	var out bytes.Buffer
	job := d.command(append([]string{"-np", strconv.Itoa(d.np), "-cr=" + backend, "-jobid-file", id}, program...)...)
	job.Stdout, job.Stderr = &out, &out
	if err := job.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- job.Wait() }()
	jobid, err := await(id, ended)
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out.String())
	}
	begin := time.Now()
	schema, err := d.gorun("checkpoint", jobid)
	if err != nil {
		return "", errors.Join(err, job.Process.Kill())
	}
	schema = strings.TrimSpace(schema)
	say("gorun checkpoint %.8s: committed in %v", jobid, time.Since(begin).Round(time.Millisecond))
	pid, err := someRank(job.Process.Pid)
	if err != nil {
		return "", errors.Join(err, job.Process.Kill())
	}
	say("kill -9 %d, one of the ranks", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return "", err
	}
	if err := <-ended; err == nil {
		return "", fmt.Errorf("the job ended well before its rank was killed")
	}
	fmt.Print(indent(out.String()))
	return schema, nil
}

// await waits for the file that says that all ranks are up.
func await(file string, ended <-chan error) (string, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return "", fmt.Errorf("the job ended before its ranks were up: %w", err)
		case <-tick.C:
			if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
				return strings.TrimSpace(string(data)), nil
			}
		}
	}
}

// someRank finds a rank: a child of an agent, which is a child of gorun.
func someRank(head int) (int, error) {
	for _, agent := range children(head) {
		if ranks := children(agent); len(ranks) > 0 {
			return ranks[len(ranks)/2], nil
		}
	}
	return 0, fmt.Errorf("process %d has no ranks", head)
}

func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for _, s := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(s); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// command runs gorun with everything it writes below the demo's folder.
func (d *demo) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.dir, "gorun"), args...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(d.dir, "run"), "GORUN_REALM="+d.dir, "GORUN_CKPT_DIR="+filepath.Join(d.dir, "snapshots"))
	return cmd
}

func (d *demo) gorun(args ...string) (string, error) {
	cmd := d.command(args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("gorun %s: %w", args[0], err)
	}
	fmt.Print(indent(string(out)))
	return string(out), nil
}

var digestWord = regexp.MustCompile(`digest=([0-9a-f]{16})`)

func digest(out string) (string, error) {
	m := digestWord.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("no result in %q", out)
	}
	return m[1], nil
}

func indent(s string) string {
	b := &strings.Builder{}
	for line := range strings.Lines(s) {
		b.WriteString("    " + line)
	}
	return b.String()
}

func say(format string, args ...any) { fmt.Printf("* "+format+"\n", args...) }
