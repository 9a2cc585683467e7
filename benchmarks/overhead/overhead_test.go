package main

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

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
		for _, transport := range []string{"mem", "shm"} {
			out, err := bench.Output(t.Context(), limit, nil, exe, "-count", "100", "-size", "4096", "-rpi", transport)
			if want := "compiled in: " + strconv.FormatBool(tags == nil); err != nil || !strings.Contains(out, want) {
				t.Errorf("built with tags %v: %q, %v; want %q", tags, out, err, want)
			}
		}
	}
}

// The time of a called function is not the caller's own.
func TestReadCosts(t *testing.T) {
	got, err := readCosts(strings.NewReader(`# callgrind format
events: Ir
summary: 100

fl=/a/main.go
fn=main.send
62 30
cfi=/a/mpi/send.go
cfn=github.com/gorun-mpi/gorun/mpi.Send
calls=20 14
62 60
62 10

fn=github.com/gorun-mpi/gorun/mpi.Send
14 55
fi=/a/other.go
3 5
`))
	want := map[string]int64{"main.send": 40, "mpi.Send": 60}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// A word takes some time, and not long.
func TestBetweenProcessors(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one processor")
	}
	if each := betweenProcessors(); each <= 0 || each >= time.Hour {
		t.Errorf("a word takes %v", each)
	}
}
