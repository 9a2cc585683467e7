package main

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// The ratio is taken to the better of the others, within the rounds, and held
// against the target.
func TestResults(t *testing.T) {
	r := newResults([]*contender{{name: "gorun"}, {name: "slow"}, {name: "fast"}})
	for _, drift := range []float64{1, 3, 2} { // the machine is not the same in each round
		r.add("gorun", []bench.Line{{Mode: "pingpong", Bytes: 8, Seconds: 3e-6 * drift}, {Mode: "window", Bytes: 8, Seconds: 1e-7 * drift}})
		r.add("slow", []bench.Line{{Mode: "pingpong", Bytes: 8, Seconds: 9e-6 * drift}, {Mode: "window", Bytes: 8, Seconds: 5e-6 * drift}})
		r.add("fast", []bench.Line{{Mode: "pingpong", Bytes: 8, Seconds: 2e-6 * drift}, {Mode: "window", Bytes: 8, Seconds: 1e-6 * drift}})
	}
	var out strings.Builder
	missed := r.print(&out)
	for _, want := range []string{
		"1.500 (1.500 .. 1.500) of fast, target 0.95 MISSED",
		"0.100 (0.100 .. 0.100) of fast, target 0.20 reached",
		"8 B messages/s, 64 under way:  gorun 5 M  slow 0.1 M  fast 0.5 M, 10.0 (10.0 .. 10.0) times fast",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if missed != 1 {
		t.Errorf("%d targets missed, want 1", missed)
	}
	if csv := string(r.csv()); !strings.HasPrefix(csv, "contender,mode,bytes,seconds,low,high\ngorun,pingpong,8,6e-06,4.5e-06,7.5e-06\n") {
		t.Errorf("csv is\n%s", csv)
	}
}

// A library that dropped out is not compared with.
func TestResultsRemove(t *testing.T) {
	r := newResults([]*contender{{name: "gorun"}, {name: "gone"}})
	for name, us := range map[string]float64{"gorun": 3e-6, "gone": 1e-6} {
		r.add(name, []bench.Line{{Mode: "pingpong", Bytes: 8, Seconds: us}})
	}
	r.remove("gone")
	var out strings.Builder
	if missed := r.print(&out); missed != 0 || strings.Contains(out.String(), "gone") || strings.Contains(string(r.csv()), "gone") {
		t.Errorf("%d missed:\n%s", missed, out.String())
	}
}

// Without another library there is a table, and no ratio.
func TestResultsAlone(t *testing.T) {
	r := newResults([]*contender{{name: "gorun"}})
	r.add("gorun", []bench.Line{{Mode: "pingpong", Bytes: 8, Seconds: 3e-6}})
	var out strings.Builder
	if missed := r.print(&out); missed != 0 || !strings.Contains(out.String(), "3.000 us") {
		t.Errorf("%d missed:\n%s", missed, out.String())
	}
}

func TestPeerNotInstalled(t *testing.T) {
	p := peer{name: "none", mpicc: "no-such-compiler", mpi: []string{"no-such-mpirun"}}
	c, why, err := p.build(t.Context(), t.TempDir(), &options{})
	if c != nil || err != nil || !strings.Contains(why, "no-such-compiler is not installed") {
		t.Errorf("%v, %q, %v", c, why, err)
	}
}
