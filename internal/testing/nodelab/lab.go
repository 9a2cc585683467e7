package nodelab

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

//go:embed node-lab.sh
var nodeScript []byte

//go:embed slurm-lab.sh
var slurmScript []byte

// What the scripts exit with where there can be no lab.
const (
	statusImpossible = 77
	statusMissing    = 78
)

// Lab is a cluster that is up. Its methods fail the test when something does not work, so
// they are for the test's goroutine. Do and Command are for any.
type Lab struct {
	t    testing.TB
	n    int
	root string // the scripts, and the lab's folder
	env  []string

	keeper *exec.Cmd
	hold   io.Closer // the keeper takes the lab down when it is closed
}

// Option changes how a lab is made.
type Option func(*Lab)

// Networks gives every node so many networks instead of one.
func Networks(n int) Option { return setting("LAB_NETS", strconv.Itoa(n)) }

// Pinned gives each node one CPU, in turn, as figures of latency need.
func Pinned() Option { return setting("LAB_PIN", "1") }

func setting(name, value string) Option {
	return func(l *Lab) { l.env = append(l.env, name+"="+value) }
}

// Up brings up n nodes, n1 and so on. They go down with the test.
func Up(t testing.TB, n int, opts ...Option) *Lab {
	t.Helper()
	// Not in /tmp, of which every node has its own.
	root, err := os.MkdirTemp("/var/tmp", "gorun-lab-")
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{t: t, n: n, root: root}
	l.env = append(os.Environ(), "LAB_DIR="+l.dir(), "LAB_NETS=1", "LAB_CLOCKS=1", "LAB_PIN=0", "LAB_TCP=reno")
	for _, o := range opts {
		o(l)
	}
	t.Cleanup(l.down)
	if err := errors.Join(os.Chmod(root, 0o755), // worker is to get at the lab
		os.WriteFile(l.script("node"), nodeScript, 0o755), os.WriteFile(l.script("slurm"), slurmScript, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := l.keep(); err != nil {
		l.refuse(err)
	}
	return l
}

// keep starts the keeper and waits until the lab is up. The keeper also ends a lab whose
// test has panicked or was killed, so it has a session of its own, which no signal from
// the terminal meets.
func (l *Lab) keep() error {
	l.keeper = exec.Command("bash", "-c", `bash "$0/node-lab.sh" hold "$1" && rm -rf "$0"`, l.root, strconv.Itoa(l.n))
	l.keeper.Env, l.keeper.SysProcAttr = l.env, &syscall.SysProcAttr{Setsid: true}
	hold, err := l.keeper.StdinPipe()
	if err != nil {
		return err
	}
	said, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	l.keeper.Stdout, l.keeper.Stderr = told, told
	err = l.keeper.Start()
	told.Close()
	if err != nil {
		l.keeper = nil
		return err
	}
	l.hold = hold
	var text strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "up: ") {
			return nil
		}
		fmt.Fprintln(&text, lines.Text())
	}
	err = l.keeper.Wait()
	l.keeper = nil
	return fmt.Errorf("%s%w", text.String(), err)
}

// refuse skips the test or fails it, since there is no lab.
func (l *Lab) refuse(err error) {
	l.t.Helper()
	var exit *exec.ExitError
	switch errors.As(err, &exit); {
	case exit != nil && exit.ExitCode() == statusImpossible,
		exit != nil && exit.ExitCode() == statusMissing && os.Getenv("CI") != "true":
		l.t.Skip(err)
	default:
		l.t.Fatal(err)
	}
}

// down is called when the test is over.
func (l *Lab) down() {
	l.t.Helper()
	if l.keeper != nil {
		l.hold.Close()
		if err := l.keeper.Wait(); err != nil {
			text, _ := os.ReadFile(l.dir() + ".log")
			l.t.Errorf("the lab does not go down: %v\n%s", err, text)
			return // what is there may still be in use
		}
	}
	if err := os.RemoveAll(l.root); err != nil {
		l.t.Error(err)
	}
}

func (l *Lab) dir() string               { return filepath.Join(l.root, "lab") }
func (l *Lab) script(name string) string { return filepath.Join(l.root, name+"-lab.sh") }

// Nodes are the names of the nodes, dead or alive.
func (l *Lab) Nodes() []string {
	names := make([]string, l.n)
	for i := range names {
		names[i] = fmt.Sprint("n", i+1)
	}
	return names
}

// Shared is a folder that all nodes and the test see under this name.
func (l *Lab) Shared() string { return filepath.Join(l.dir(), "shared") }

// Local is a folder that every node has under this name, with files of its own that a
// power cut leaves. LocalOf is where the test sees that of a node.
func (l *Lab) Local() string { return filepath.Join(l.dir(), "local") }

// LocalOf is the Local of a node, as the test sees it.
func (l *Lab) LocalOf(node string) string { return filepath.Join(l.dir(), "nodes", node, "local") }

// Address is the IPv4 address of a node in a network, the first being 0.
func (l *Lab) Address(node string, network int) string {
	return fmt.Sprintf("10.%d.0.%s", 77+network, strings.TrimPrefix(node, "n"))
}

// In is the lab for a part of its test: what fails there fails the part.
func (l *Lab) In(t testing.TB) *Lab {
	part := *l
	part.t = t
	return &part
}

// Do calls node-lab.sh.
func (l *Lab) Do(args ...string) error { return l.call("node", args) }

func (l *Lab) call(script string, args []string) error {
	cmd := exec.Command("bash", append([]string{l.script(script)}, args...)...)
	cmd.Env = l.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s-lab.sh %s: %w\n%s", script, strings.Join(args, " "), err, out)
	}
	return nil
}

func (l *Lab) must(args ...string) {
	l.t.Helper()
	if err := l.Do(args...); err != nil {
		l.t.Fatal(err)
	}
}
