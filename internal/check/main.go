// Command check passes all tests of the project, part by part, and says what
// each took:
//
//	go run ./internal/check            everything a fresh machine with Go can run
//	go run ./internal/check sim kills  only these parts
//	go run ./internal/check -full      with random schedules, kills and cycles by the hundred
//	go run ./internal/check -list
//
// The parts are in two lanes that run beside each other. Those of one lane use what those before
// them have built: by this Go, as programs are; in other ways.
//
// With CI=true the random parts go on for as long as there is time, up to a count, a missing optional tool is a failure
// instead of a skip, and the time is bounded: parts that are not over after 20 minutes are told,
// and fail after 60, but for -full.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// A run in CI takes less than goal on two cores, with nothing built before. What takes longer is told. It fails at the
// limit: a slow machine is no defect of what is tested.
const (
	goal  = 20 * time.Minute
	limit = 60 * time.Minute
)

// part is one step of the check.
type part struct {
	name string
	what string
	run  func(*runner) error
}

var lanes = [][]part{
	{
		{"unit", "unit, property, transcript and end-to-end tests, Examples", unit},
		{"kills", "random kill -9 of ranks, agents and head, restart, compare; a program of examples, with -full all", kills},
		{"whole", "images of whole processes: every situation, cycles of kill and restart", whole},
	},
	{
		{"vet", "gofmt, go vet, modules tidy", vet},
		{"race", "the packages with shared memory under the race detector", race},
		{"go125", "the older of the two supported Go versions", older},
		{"fuzz", "each fuzz target for thousands of inputs", fuzz},
		{"ports", "images between amd64, arm64 and s390x", ports},
		{"sim", "the protocol simulator and its mutants", sim},
		{"bench", "benchmarks run and print", bench},
		{"losses", "nodes that lose power or network, stand still, are slow, at steps of checkpoints and restarts", losses},
	},
}

func main() {
	list := flag.Bool("list", false, "list the parts and leave")
	full := flag.Bool("full", false, "run the random parts at their full counts, for as long as it takes")
	flag.Parse()
	var names []string
	for _, lane := range lanes {
		for _, p := range lane {
			names = append(names, p.name)
			if *list {
				fmt.Printf("%-6s %s\n", p.name, p.what)
			}
		}
	}
	if *list {
		return
	}
	for _, name := range flag.Args() {
		if !slices.Contains(names, name) {
			fmt.Fprintf(os.Stderr, "check: no part %q; see -list\n", name)
			os.Exit(2)
		}
	}
	if !runLanes(flag.Args(), *full) {
		os.Exit(1)
	}
}

// runLanes runs the parts of that name; without names all.
func runLanes(names []string, full bool) bool {
	c := &check{ci: os.Getenv("CI") == "true", full: full, start: time.Now(), stdout: os.Stdout}
	c.stopOnSignal()
	var wg sync.WaitGroup
	for _, lane := range lanes {
		wg.Go(func() {
			for _, p := range lane {
				if len(names) == 0 || slices.Contains(names, p.name) {
					c.one(p)
				}
			}
		})
	}
	wg.Wait()
	fmt.Fprint(c.stdout, "\n", strings.Join(c.failures, ""), "\n", c.table())
	return !c.failed
}

// check is one run of the command.
type check struct {
	ci, full bool
	start    time.Time
	stdout   io.Writer

	mu       sync.Mutex // of what follows, and of the output
	rows     []string
	failed   bool
	failures []string          // what tests that failed have printed, said again at the end
	leave    []func(os.Signal) // what is to be done on a signal
}

// one runs a part.
func (c *check) one(p part) {
	r := &runner{check: c, out: &lines{c: c, prefix: fmt.Sprintf("%-6s| ", p.name)}, env: append(os.Environ(), "CGO_ENABLED=0")}
	fmt.Fprintf(r.out, "%s\n", p.what)
	began := time.Now()
	err := p.run(r)
	took := time.Since(began)
	late := c.ci && !c.full
	if err == nil && late && time.Since(c.start) > limit {
		err = fmt.Errorf("the %v of all parts were over", limit)
	}
	result := "ok"
	if late && time.Since(c.start) > goal {
		result = fmt.Sprintf("ok, but the %v that all parts should take were over", goal)
	}
	if err != nil {
		result = "FAILED: " + err.Error()
	}
	fmt.Fprintf(r.out, "%s after %v\n", result, took.Round(time.Second))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || err != nil
	c.rows = append(c.rows, fmt.Sprintf("%s\t%.0f s\t%.0f s\t%s\n", p.name, took.Seconds(), r.cpu.Seconds(), result))
}

// table says what each part took. Beside other parts a part takes longer than alone; the time of CPUs says more.
func (c *check) table() string {
	b := &strings.Builder{}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\ttook\tof CPUs\tresult")
	for _, row := range c.rows {
		fmt.Fprint(w, row)
	}
	w.Flush()
	return fmt.Sprintf("%stotal %v\n", b, time.Since(c.start).Round(time.Second))
}
