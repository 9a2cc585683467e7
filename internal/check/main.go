// Command check passes all tests of the project, part by part, and says what
// each took:
//
//	go run ./internal/check            everything a fresh machine with Go can run
//	go run ./internal/check sim kills  only these parts
//	go run ./internal/check -full      with random schedules, kills and cycles by the hundred
//	go run ./internal/check -list
//
// With CI=true the random parts go on for longer, a missing optional tool is a failure
// instead of a skip, and the time is bounded: a part fails that is not over when the
// budgets of all of them are used up, but for -full.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// part is one step of the check. The budgets sum to the 20 minutes that a run may
// take on two cores, with nothing built before.
type part struct {
	name   string
	what   string
	budget time.Duration
	run    func(*runner) error
}

var parts = []part{
	{"vet", "gofmt, go vet, modules tidy", 90 * time.Second, vet},
	{"unit", "unit, property, transcript and end-to-end tests, Examples", 250 * time.Second, unit},
	{"race", "the packages with shared memory under the race detector", 170 * time.Second, race},
	{"sim", "the protocol simulator and its mutants", 60 * time.Second, sim},
	{"kills", "random kill -9 of ranks, agents and head, restart, compare", 85 * time.Second, kills},
	{"losses", "nodes that lose power or network, stand still, are slow, at steps of checkpoints and restarts", 90 * time.Second, losses},
	{"whole", "images of whole processes: every situation, cycles of kill and restart", 215 * time.Second, whole},
	{"ports", "images between amd64, arm64 and s390x", 40 * time.Second, ports},
	{"fuzz", "each fuzz target for thousands of inputs", 60 * time.Second, fuzz},
	{"go125", "the older of the two supported Go versions", 90 * time.Second, older},
	{"bench", "benchmarks run and print", 50 * time.Second, bench},
}

func main() {
	list := flag.Bool("list", false, "list the parts and leave")
	full := flag.Bool("full", false, "run the random parts at their full counts, for as long as it takes")
	flag.Parse()
	if *list {
		for _, p := range parts {
			fmt.Printf("%-6s %5.0fs  %s\n", p.name, p.budget.Seconds(), p.what)
		}
		return
	}
	for _, name := range flag.Args() {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			fmt.Fprintf(os.Stderr, "check: no part %q; see -list\n", name)
			os.Exit(2)
		}
	}
	if !runParts(flag.Args(), *full) {
		os.Exit(1)
	}
}

func runParts(names []string, full bool) bool {
	r := &runner{ci: os.Getenv("CI") == "true", full: full, env: append(os.Environ(), "CGO_ENABLED=0")}
	r.stopOnSignal()
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\ttook\tbudget\tresult")
	chosen, allowed := parts[:0:0], time.Duration(0)
	for _, p := range parts {
		if len(names) == 0 || slices.Contains(names, p.name) {
			chosen = append(chosen, p)
			allowed += p.budget
		}
	}
	ok, start := true, time.Now()
	for _, p := range chosen {
		fmt.Printf("=== %s: %s\n", p.name, p.what)
		began := time.Now()
		err := p.run(r)
		took := time.Since(began).Round(100 * time.Millisecond)
		if err == nil && r.ci && !full && time.Since(start) > allowed {
			err = fmt.Errorf("the %v of all parts were over", allowed)
		}
		result := "ok"
		if err != nil {
			ok, result = false, "FAILED: "+err.Error()
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%s\n", p.name, took, p.budget, result)
	}
	w.Flush()
	fmt.Printf("\n%stotal %v\n", table, time.Since(start).Round(time.Second))
	return ok
}

// runner runs commands one after the other.
type runner struct {
	ci, full bool
	env      []string
	cmd      *exec.Cmd
	tmp      string // to be removed
}

// times chooses how often something random is done: by whoever tries his change, in
// CI, and at full count.
func (r *runner) times(here, ci, full int) string {
	switch {
	case r.full:
		return strconv.Itoa(full)
	case r.ci:
		return strconv.Itoa(ci)
	}
	return strconv.Itoa(here)
}

// limit is the flag that ends tests which hang.
func (r *runner) limit() string { return "-timeout=" + r.times(20, 20, 180) + "m" }

// stopOnSignal hands an interrupt on to the command that is running.
func (r *runner) stopOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-c
		if cmd := r.cmd; cmd != nil && cmd.Process != nil {
			cmd.Process.Signal(s)
		}
		os.RemoveAll(r.tmp)
		os.Exit(1)
	}()
}

// sh runs a command with more environment, its output passed on.
func (r *runner) sh(env []string, args ...string) error {
	return r.to(os.Stdout, env, args...)
}

func (r *runner) to(out io.Writer, env []string, args ...string) error {
	return r.in("", out, env, args...)
}

func (r *runner) in(dir string, out io.Writer, env []string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(r.env), env...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	r.cmd = cmd
	if err := cmd.Run(); err != nil {
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
	fmt.Printf("skipped: %s is not installed: %s\n", tool, why)
	return false, nil
}
