// Package bench is what the drivers of the benchmarks share: building programs,
// running them with a limit, and reading the lines that netpipe, collectives
// and compare/c print.
package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// module is the path that the packages of this project begin with.
const module = "github.com/gorun-mpi/gorun/"

// Build compiles the command pkg of this module, e.g. "cmd/gorun", to dir/name.
// The working directory must be within the module.
func Build(dir, name, pkg string, tags ...string) (exe string, err error) {
	exe = filepath.Join(dir, name)
	return exe, build(dir, pkg, "build", "-tags", strings.Join(tags, ","), "-o", exe, module+pkg)
}

// BuildNested compiles the command in a folder that is a module of its own.
func BuildNested(dir, name, folder string) (exe string, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", strings.TrimSuffix(module, "/")).Output()
	if err != nil {
		return "", fmt.Errorf("where is %s: %w", module, err)
	}
	exe = filepath.Join(dir, name)
	return exe, build(dir, folder, "-C", filepath.Join(strings.TrimSpace(string(root)), folder), "build", "-o", exe, ".")
}

// build runs the go command. Its temporary files are below dir. They are removed even if an interrupt ends the
// command before it removes them itself.
func build(dir, what string, args ...string) (err error) {
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+tmp)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, out)
	}
	return nil
}

// World is a folder of its own for programs, control sockets and snapshots. Its
// environment is that of the whole process, so that package launcher finds the
// jobs in it, too.
type World struct {
	Dir   string // the folder
	Bin   string // where programs are built
	Gorun string // the command, built
}

// NewWorld makes a world below parent ("": the default for temporary files) and
// builds gorun in it.
func NewWorld(parent string) (*World, error) {
	dir, err := os.MkdirTemp(parent, "gorun-bench-")
	if err != nil {
		return nil, err
	}
	w := &World{Dir: dir, Bin: filepath.Join(dir, "bin")}
	run := filepath.Join(dir, "run")
	err = errors.Join(os.Mkdir(w.Bin, 0o700), os.Mkdir(run, 0o700),
		os.Setenv("XDG_RUNTIME_DIR", run), os.Setenv("GORUN_REALM", run), os.Setenv("GORUN_CKPT_DIR", filepath.Join(dir, "snapshots")))
	if err == nil {
		w.Gorun, err = Build(w.Bin, "gorun", "cmd/gorun")
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close removes the folder.
func (w *World) Close() error { return os.RemoveAll(w.Dir) }

// Main runs a benchmark and exits. On an interrupt its context ends, so that its processes are ended and its
// files removed.
func Main(name string, f func(ctx context.Context) error) {
	signal.Ignore(syscall.SIGPIPE) // a reader who leaves early, as head does, leaves nothing behind
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := f(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Command prepares a command that is killed, with the group of processes it
// leads, when ctx ends. env is added to the environment.
func Command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// Output runs a command to its end, within limit. It returns what the command printed on standard output, even
// if it fails. The error contains what it said on standard error. At the limit the command is asked to end, and
// killed 3 seconds later. So an mpirun can end its ranks, which lead groups of their own.
func Output(ctx context.Context, limit time.Duration, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := Command(ctx, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	kill := cmd.Cancel
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = kill() // what is left of the group
	}
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		err = fmt.Errorf("not finished after %v", limit)
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tail(errs.String()))
	}
	return out.String(), nil
}

// tail returns the last lines of a text.
func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// Line is one measurement: the median time of a message and the quartiles.
type Line struct {
	Mode               string
	Bytes              int
	Seconds, Low, High float64
}

// Header is the first line of what ReadLines reads.
const Header = "mode,bytes,seconds,low,high"

// ReadLines reads the output of netpipe -csv and its likes. Lines before
// the header, which some launchers print, are skipped.
func ReadLines(text string) ([]Line, error) {
	_, rest, ok := strings.Cut(text, Header+"\n")
	if !ok {
		return nil, fmt.Errorf("no measurements in %q", tail(text))
	}
	rest = rest[:strings.LastIndexByte(rest, '\n')+1] // an ended program may have begun a line
	records, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, r := range records {
		if len(r) != 5 {
			return nil, fmt.Errorf("%d fields in %q, want 5", len(r), r)
		}
		l := Line{Mode: r[0]}
		if l.Bytes, err = strconv.Atoi(r[1]); err != nil {
			return nil, err
		}
		for i, to := range []*float64{&l.Seconds, &l.Low, &l.High} {
			if *to, err = strconv.ParseFloat(r[2+i], 64); err != nil {
				return nil, err
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}
