package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/native"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/launcher"
)

// The test binary is everything: gorun, its agents (which are started by way of
// /proc/self/exe), and the ranks.
const (
	asGorun = "__gorun"
	asRank  = "__rank"
)

// RankMain is what ranks do. It is set by the external test package: a program is no
// package of this library.
var RankMain func(args []string) int

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case launcher.AgentVerb, launcher.InitVerb, launcher.PartsVerb:
			os.Exit(Main(os.Args[1:], native.Imager{}))
		case asGorun:
			os.Exit(Main(os.Args[2:], native.Imager{}))
		case asRank:
			os.Exit(RankMain(os.Args[2:]))
		}
	}
	whole.Register(native.Imager{})
	os.Exit(m.Run())
}

// markVar is in the environment of all processes of one test, and only there.
const markVar = "GORUN_TEST_MARK"

// house is a test's own world: control folder, temporary files, snapshots.
type house struct {
	t              *testing.T
	run, tmp, ckpt string
	mark           string
	nofile         int      // how many files gorun may have open; 0: as many as the test
	in             *os.File // standard input for start("@"), shared by all
	ignore         string   // a signal that is ignored when gorun is started; "": none
	group          string   // a control group that jobs are started in
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, run: t.TempDir(), tmp: t.TempDir(), ckpt: filepath.Join(t.TempDir(), "ckpt")}
	h.mark = filepath.Base(filepath.Dir(h.run)) + fmt.Sprint(time.Now().UnixNano())
	if err := os.Chmod(h.run, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// proc is a running gorun.
type proc struct {
	h        *house
	cmd      *exec.Cmd
	out, err *stream
	done     chan struct{}
}

// stream collects output and wakes those who wait for a part of it.
type stream struct {
	mu   sync.Mutex
	cond *sync.Cond
	b    bytes.Buffer
	done bool
}

func newStream() *stream {
	s := &stream{}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cond.Broadcast()
	return s.b.Write(p)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *stream) end() {
	s.mu.Lock()
	s.done = true
	s.cond.Broadcast()
	s.mu.Unlock()
}

// wait waits until the text has come n times.
func (s *stream) wait(t *testing.T, text string, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for strings.Count(s.b.String(), text) < n {
		if s.done {
			t.Fatalf("ended before %q came %d times:\n%s", text, n, s.b.String())
		}
		s.cond.Wait()
	}
}

// start runs gorun with standard input from stdin, "-" being a pipe that stays open and
// "@NAME" a file.
func (h *house) start(stdin string, args ...string) *proc {
	h.t.Helper()
	return h.startTo(nil, stdin, args...)
}

// startTo does so with standard output to a file; with nil it is collected.
func (h *house) startTo(out *os.File, stdin string, args ...string) *proc {
	h.t.Helper()
	p := &proc{h: h, cmd: h.command(args), out: newStream(), err: newStream(), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+h.run, "GORUN_REALM="+h.run, "TMPDIR="+h.tmp, "GORUN_CKPT_DIR="+h.ckpt, markVar+"="+h.mark)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if out != nil {
		p.cmd.Stdout = out
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if stdin == "-" {
		if _, err := p.cmd.StdinPipe(); err != nil {
			h.t.Fatal(err)
		}
	} else if stdin == "@" {
		p.cmd.Stdin = h.in
	} else if name, ok := strings.CutPrefix(stdin, "@"); ok {
		f, err := os.Open(name)
		if err != nil {
			h.t.Fatal(err)
		}
		defer f.Close()
		p.cmd.Stdin = f
	} else {
		p.cmd.Stdin = strings.NewReader(stdin)
	}
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		p.out.end()
		p.err.end()
		close(p.done)
	}()
	h.t.Cleanup(func() { p.cmd.Process.Kill(); <-p.done })
	return p
}

// command is gorun with args, under the limits that the house sets.
func (h *house) command(args []string) *exec.Cmd {
	args = append([]string{asGorun}, args...)
	var set string
	if h.nofile > 0 {
		set = fmt.Sprintf("ulimit -n %d; ", h.nofile)
	}
	if h.group != "" {
		set += fmt.Sprintf("echo $$ > '%s/cgroup.procs' && ", h.group)
	}
	if h.ignore != "" {
		set += fmt.Sprintf("trap '' %s; ", h.ignore)
	}
	if set == "" {
		return exec.Command("/proc/self/exe", args...)
	}
	return exec.Command("sh", append([]string{"-c", set + `exec "$0" "$@"`, self(h.t)}, args...)...)
}

// code waits for the end and returns the exit status, 128+n for a signal.
func (p *proc) code() int {
	p.h.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.h.t.Fatalf("gorun does not end\n%s%s", p.out, p.err)
	}
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (p *proc) signal(sig syscall.Signal) { p.cmd.Process.Signal(sig) }

// gorun runs to the end and checks that nothing is left.
func (h *house) gorun(args ...string) (out, errs string, code int) {
	h.t.Helper()
	p := h.start("", args...)
	code = p.code()
	h.nothingLeft()
	return p.out.String(), p.err.String(), code
}

// processes lists the processes of this test, zombies left out.
func (h *house) processes() (found []string) {
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range envs {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(markVar+"="+h.mark+"\x00")) {
			cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			found = append(found, filepath.Base(filepath.Dir(f))+" "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// nothingLeft waits until no process and no file of the test is left.
func (h *house) nothingLeft() {
	h.t.Helper()
	testenv.Until(h.t, func() string {
		if left := h.processes(); len(left) > 0 {
			return fmt.Sprintf("left running: %q", left)
		}
		for _, dir := range []string{h.run, h.tmp} {
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				return fmt.Sprintf("left in %s: %v", dir, left)
			}
		}
		return ""
	})
}

// must runs a command that has to succeed.
func (h *house) must(args ...string) string {
	h.t.Helper()
	p := h.start("", args...)
	if code := p.code(); code != 0 {
		h.t.Fatalf("gorun %q: exit %d\n%s", args, code, p.err)
	}
	return p.out.String()
}

// onlyJob returns the id of the only job that runs, which need not be up.
func (h *house) onlyJob() string {
	h.t.Helper()
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(h.must("ps")), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "  ") // what is to be said of the job above it
	})
	if len(lines) != 2 {
		h.t.Fatalf("not one job: %q", lines)
	}
	return strings.Fields(lines[1])[0]
}

// self is this binary as a program of ranks.
func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, s := range strings.Fields(string(b)) {
			var n int
			if _, err := fmt.Sscan(s, &n); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// family returns the agents of a gorun and their ranks.
func (p *proc) family() (agents, ranks []int) {
	agents = children(p.cmd.Process.Pid)
	for _, a := range agents {
		ranks = append(ranks, children(a)...)
	}
	return agents, ranks
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	i := bytes.LastIndexByte(b, ')')
	return i > 0 && i+2 < len(b) && b[i+2] == 'Z'
}
