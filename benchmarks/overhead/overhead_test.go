package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		median, lo float64
		want       string
	}{{0.99, 0.9, "reached"}, {1.01, 1.0, "reached"}, {1.02, 1.0, "within the noise"}, {1.05, 1.02, "MISSED"}} {
		if got := verdict(c.median, c.lo); got != c.want {
			t.Errorf("median %g from %g on: %s, want %s", c.median, c.lo, got, c.want)
		}
	}
}

// The two builds of loop differ just in what is measured.
func TestBuilds(t *testing.T) {
	for _, tags := range [][]string{nil, {tag}} {
		exe, err := bench.Build(t.TempDir(), "loop", "benchmarks/overhead/loop", tags...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := bench.Output(t.Context(), limit, nil, exe, "-count", "100", "-size", "16384")
		if want := "compiled in: " + strconv.FormatBool(tags == nil); err != nil || !strings.Contains(out, want) {
			t.Errorf("built with tags %v: %q, %v; want %q", tags, out, err, want)
		}
	}
}
