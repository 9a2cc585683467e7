package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner runs the commands of a part, one after the other.
type runner struct {
	*check
	out io.Writer
	env []string
	cpu time.Duration // what they have used
}

// times chooses how often something random is done: when a change is tried, in
// CI, and at full count.
func (c *check) times(here, ci, full int) string {
	switch {
	case c.full:
		return strconv.Itoa(full)
	case c.ci:
		return strconv.Itoa(ci)
	}
	return strconv.Itoa(here)
}

// until is the time, counted from the start of the check, after which random rounds end in CI. So they take what the other
// parts leave, and these have room to grow.
func (c *check) until(after time.Duration) string {
	if !c.ci || c.full {
		return "GORUN_UNTIL="
	}
	return "GORUN_UNTIL=" + strconv.FormatInt(c.start.Add(after).Unix(), 10)
}

// timeout is the flag that ends tests which hang.
func (c *check) timeout() string { return "-timeout=" + c.times(20, 40, 180) + "m" }

// stopOnSignal hands an interrupt on to the commands that are running.
func (c *check) stopOnSignal() {
	s := make(chan os.Signal, 1)
	signal.Notify(s, os.Interrupt, syscall.SIGTERM)
	go func() {
		sig := <-s
		c.mu.Lock()
		for _, f := range c.leave {
			f(sig)
		}
		os.Exit(1)
	}()
}

// onSignal calls f when a signal comes.
func (c *check) onSignal(f func(os.Signal)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave = append(c.leave, f)
}

// lines passes whole lines on, each behind the name of its part.
type lines struct {
	c       *check
	prefix  string
	rest    []byte
	failing bool // the lines are of a test that failed
}

func (l *lines) Write(p []byte) (int, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := l.prefix + string(l.rest[:i+1])
		fmt.Fprint(l.c.stdout, line)
		if l.ofFailure(l.rest[:i]) && len(l.c.failures) < maxFailures {
			l.c.failures = append(l.c.failures, line)
		}
		l.rest = l.rest[i+1:]
	}
}

// maxFailures is how many lines of failed tests are said again at the end.
const maxFailures = 200

// ofFailure reports whether a line is of a test that failed: from its name, or from a panic, to the result of its package.
func (l *lines) ofFailure(line []byte) bool {
	trimmed := bytes.TrimLeft(line, " ")
	switch {
	case bytes.HasPrefix(trimmed, []byte("--- FAIL")), bytes.HasPrefix(line, []byte("panic:")), bytes.HasPrefix(line, []byte("fatal error:")):
		l.failing = true
	case bytes.HasPrefix(line, []byte("FAIL\t")):
		l.failing = false
		return true
	case bytes.HasPrefix(trimmed, []byte("--- ")), bytes.HasPrefix(line, []byte("=== ")), bytes.HasPrefix(line, []byte("ok ")):
		l.failing = false
	}
	return l.failing
}

// sh runs a command with more environment, its output passed on.
func (r *runner) sh(env []string, args ...string) error {
	return r.to(r.out, env, args...)
}

func (r *runner) to(out io.Writer, env []string, args ...string) error {
	return r.in("", out, env, args...)
}

func (r *runner) in(dir string, out io.Writer, env []string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(r.env), env...)
	cmd.Stdout, cmd.Stderr = out, r.out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Start()
	if err == nil {
		r.onSignal(func(s os.Signal) { cmd.Process.Signal(s) })
		err = cmd.Wait()
		r.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintln(r.out, "a process that was left behind still has the output")
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// output runs a command and returns what it printed.
func (r *runner) output(args ...string) (string, error) {
	b := &strings.Builder{}
	err := r.to(b, nil, args...)
	return strings.TrimSpace(b.String()), err
}

// need reports whether a tool is there. In CI its absence is an error.
func (r *runner) need(tool, why string) (bool, error) {
	if _, err := exec.LookPath(tool); err == nil {
		return true, nil
	}
	if r.ci {
		return false, fmt.Errorf("%s is not installed: %s", tool, why)
	}
	fmt.Fprintf(r.out, "skipped: %s is not installed: %s\n", tool, why)
	return false, nil
}
