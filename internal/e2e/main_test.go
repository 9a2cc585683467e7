package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// bin is the folder with gorun and the example programs, built once.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gorun-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := 1
	if err := os.Chmod(dir, 0o755); err != nil { // other users run the programs, too
		fmt.Fprintln(os.Stderr, err)
	} else if err := build(dir, os.Environ(), "gorun", "solver", "heat", "rows", "ring", "subject", "confine"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// packages are the programs that are no examples.
var packages = map[string]string{"gorun": "cmd/gorun", "subject": "internal/e2e/subject", "confine": "internal/e2e/confine", "rows": "examples/heat/rows"}

// build compiles commands and examples by name into dir, at once and without what only debuggers read: linking takes the time.
func build(dir string, env []string, names ...string) error {
	args := []string{"build", "-ldflags=-w", "-o", dir + "/"}
	for _, name := range names {
		args = append(args, modulePath+cmp.Or(packages[name], "examples/"+name))
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(env, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// house is one test's own world: control folder, snapshots, no shared state.
type house struct {
	t    testing.TB
	run  string // XDG_RUNTIME_DIR
	ckpt string // snapshots
	env  []string
	user *syscall.Credential // who runs gorun; nil: who runs the test
	wrap []string            // command that runs gorun; nil: none
}

func newHouse(t testing.TB) *house {
	h := &house{t: t, run: t.TempDir(), ckpt: filepath.Join(t.TempDir(), "ckpt")}
	if err := os.Chmod(h.run, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// proc is a running gorun. Its output is collected; err lines can be waited for.
type proc struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  bytes.Buffer
	errs *lines
	done chan struct{} // closed when it has been reaped
	err  error
}

// lines collects a stream line by line and wakes those who wait for one.
type lines struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []string
	eof  bool
}

func collect(r io.Reader) *lines {
	l := &lines{}
	l.cond = sync.NewCond(&l.mu)
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			l.mu.Lock()
			l.all = append(l.all, s.Text())
			l.cond.Broadcast()
			l.mu.Unlock()
		}
		l.mu.Lock()
		l.eof = true
		l.cond.Broadcast()
		l.mu.Unlock()
	}()
	return l
}

// wait blocks until the nth line that contains word has come; false at the end
// of the stream.
func (l *lines) wait(word string, nth int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := 0, 0; ; {
		for ; i < len(l.all); i++ {
			if strings.Contains(l.all[i], word) {
				if n++; n == nth {
					return true
				}
			}
		}
		if l.eof {
			return false
		}
		l.cond.Wait()
	}
}

// drain waits for the end of the stream.
func (l *lines) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.eof {
		l.cond.Wait()
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

func (h *house) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	h.t.Cleanup(cancel)
	args = slices.Concat(h.wrap, []string{filepath.Join(bin, "gorun")}, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+h.run, "GORUN_REALM="+h.run, "GORUN_CKPT_DIR="+h.ckpt), h.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	return cmd
}

// start begins gorun with args in the background.
func (h *house) start(args ...string) *proc {
	h.t.Helper()
	return h.startWith(nil, args...)
}

// startWith gives it something to read.
func (h *house) startWith(stdin io.Reader, args ...string) *proc {
	h.t.Helper()
	p := &proc{t: h.t, cmd: h.command(args...), done: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout = stdin, &p.out
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	p.cmd.Stderr = w
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	w.Close()
	p.errs = collect(r)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// wait returns the exit status, 128+n for a death by signal n, when everything
// that was said has been read, too.
func (p *proc) wait() int {
	<-p.done
	p.errs.drain()
	var e *exec.ExitError
	switch {
	case p.err == nil:
		return 0
	case errors.As(p.err, &e):
		ws := e.Sys().(syscall.WaitStatus)
		if ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return ws.ExitStatus()
	}
	p.t.Fatalf("gorun: %v", p.err)
	return -1
}

// gorun runs to the end and returns its output and exit status.
func (h *house) gorun(args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	p := h.start(args...)
	code = p.wait()
	return p.out.String(), p.errs.String(), code
}

// must runs to the end and expects success.
func (h *house) must(args ...string) string {
	h.t.Helper()
	out, errs, code := h.gorun(args...)
	if code != 0 {
		h.t.Fatalf("gorun %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

var resultLine = regexp.MustCompile(`(?m)^result .*digest=([0-9a-f]{16})$`)

// digest returns the digest of the one result line.
func digest(t testing.TB, out string) string {
	t.Helper()
	m := resultLine.FindAllStringSubmatch(out, -1)
	if len(m) != 1 {
		t.Fatalf("%d result lines in %q", len(m), out)
	}
	return m[0][1]
}

// jobID waits until the job has written its id, thus until all ranks are up.
func jobID(t testing.TB, p *proc, file string) string {
	t.Helper()
	for {
		if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
			return strings.TrimSpace(string(data))
		}
		select {
		case <-p.done:
			t.Fatalf("gorun ended before its ranks were up:\n%s", p.errs)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// children returns the living children of a process.
func children(pid int) []int {
	var pids []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		data, _ := os.ReadFile(f)
		for _, s := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(s); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// family returns the agents and the ranks of a running gorun.
func (p *proc) family() (agents, ranks []int) {
	agents = children(p.cmd.Process.Pid)
	for _, a := range agents {
		ranks = append(ranks, children(a)...)
	}
	return agents, ranks
}

// gone waits until none of the processes is left, zombies included.
func gone(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		testenv.Until(t, func() string {
			if syscall.Kill(pid, 0) != nil || leftToInit(pid) {
				return ""
			}
			state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return fmt.Sprintf("process %d is still there: %s", pid, state)
		})
	}
}

// leftToInit reports whether a process has ended and only the first process of
// the machine has still to take note: no parent of ours is left.
func leftToInit(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return strings.Contains(string(text), "\nState:\tZ") && strings.Contains(string(text), "\nPPid:\t1\n")
}

// clean waits until the control folder is empty again.
func (h *house) clean() {
	h.t.Helper()
	testenv.Until(h.t, func() string {
		left, _ := filepath.Glob(filepath.Join(h.run, "gorun", "*"))
		return strings.Join(left, " ")
	})
}

// poll passes the time between two looks at a condition nothing announces.
func poll() { <-time.After(2 * time.Millisecond) }
