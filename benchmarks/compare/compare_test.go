package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// some are samples of a race whose machine is not the same in each round, with a
// contender that is missing from one of them.
func some() samples {
	s := samples{}
	ping := key{"shm", "pingpong", 2, 8}
	rate := key{"tcp", "window", 2, 8}
	for round, drift := range []float64{1, 4, 2} {
		s.add(ping, ours, round, 3e-7*drift)
		s.add(ping, "openmpi", round, 5e-7*drift)
		if round != 1 {
			s.add(ping, "lam", round, 2e-7*drift)
		}
		s.add(ping, "NPopenmpi", round, 1e-9)
		s.add(rate, ours, round, 1e-7*drift)
		s.add(rate, "mpich", round, 1e-6*drift)
		for ranks, slow := range map[int]float64{2: 1, 8: 5} {
			s.add(key{"shm", "heat loop", ranks, 0}, ours, round, 1e-5*drift*slow)
			s.add(key{"shm", "heat loop", ranks, 0}, "openmpi", round, 2e-5*drift*slow*slow)
		}
	}
	return s
}

// The ratios are taken within the rounds, to a named contender or to the best
// of all but the references, and held against the targets.
func TestTargets(t *testing.T) {
	r := newReport(some())
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{
		"shm 8 B latency openmpi <= 0.75 0.65 0.60 0.60 .. 0.60 pingpong 8 B (openmpi) stretch",
		"shm 8 B latency best <= 1 0.8 1.50 1.50 .. 1.50 pingpong 8 B (lam) MISSED",
		"tcp 8 B messages/s best >= 5 15 10.00 10.00 .. 10.00 window 8 B (mpich) reached",
		"shm heat and solver, slow-down on 8 ranks openmpi <= 0.6 0.4 0.20 0.20 .. 0.20 heat slow-down (openmpi) stretch",
		"pingpong 8 B 600 ns 75% 1.00 us 75% - 300 ns 33% 1.00 ns 0% 0.60 (0.60 .. 0.60) 1.50 (1.50 .. 1.50) lam",
		"window 8 B 5.00 M/s 75%",
		"heat slow-down 8 5 x 0%",
	} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if r.missed != 1 {
		t.Errorf("%d targets missed, want 1", r.missed)
	}
}

// A written file is read again, and rounds are added behind.
func TestSamplesAreKept(t *testing.T) {
	dir := t.TempDir()
	if s, err := readSamples(dir); err != nil || len(s) != 0 {
		t.Errorf("from an empty folder %v, %v", s, err)
	}
	s := some()
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	again, err := readSamples(dir)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("%v, %v\nwant %v", again, err, s)
	}
	if n := again.rounds(); n != 3 {
		t.Errorf("the next round is %d, want 3", n)
	}
	for _, text := range []string{"", "a,b\n", strings.Join(columns, ",") + "\nshm,pingpong,2,8,gorun,x,1\n"} {
		if err := os.WriteFile(filepath.Join(dir, samplesFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := readSamples(dir); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// The report has every table and every picture within one file.
func TestReport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	dir := t.TempDir()
	world := &bench.World{Dir: dir, Bin: dir}
	var out strings.Builder
	if err := newReport(some()).write(t.Context(), world, dir, &out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "pingpong over shm", `class="missed">MISSED`, "0.60 .. 0.60"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if n := strings.Count(string(page), "<svg"); n != 2 {
		t.Errorf("%d pictures, want 2: ping-pong and heat's loop", n)
	}
}

func TestScaled(t *testing.T) {
	for x, want := range map[float64]string{0.5: "0.50 ns", 9.994: "9.99 ns", 9.996: "10.0 ns", 123.4: "123 ns", 999.4: "999 ns", 999.6: "1.00 us", 1.5e9: "1.50 s", 4e12: "4000 s"} {
		if got := scaled(x, []string{" ns", " us", " ms", " s"}); got != want {
			t.Errorf("%g: %q, want %q", x, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 B", 1000: "1000 B", 8192: "8 KB", 16 << 20: "16 MB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Each unit is told to all; the second transport only carries messages.
func TestPlan(t *testing.T) {
	o, err := parse([]string{"-ranks", "3,70"})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, u := range plan(o) {
		count[u.transport+" "+u.test]++
		if u.test == "heat" && (u.count != map[int]int{3: 20000, 70: 1000}[u.ranks] || u.edge != 256) {
			t.Errorf("%+v", u)
		}
	}
	want := map[string]int{"shm pingpong": 1, "shm dirty": 1, "shm stream": 1, "shm window": 1, "shm column": 1, "shm collectives": 2, "shm start": 2, "shm heat": 2, "shm solver": 2, "shm cg": 2, "shm is": 2, "shm mg": 2, "shm stencil": 2,
		"tcp pingpong": 1, "tcp dirty": 1, "tcp stream": 1, "tcp window": 1, "tcp column": 1}
	if !reflect.DeepEqual(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	for _, args := range [][]string{{"-peers", ""}, {"-peers", "lam,NPtcp"}, {"-rounds", "0", "-add"}} {
		if _, err := parse(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{{"-tests", "x"}, {"-transports", "udp"}, {"-sizes", "8,x"}, {"-sizes", "0"}, {"-ranks", "-1"}, {"-rounds", "-1"}, {"-batches", "0"}, {"-time", "0s"}, {"extra"},
		{"-peers", "openmpi,mvapich"}, {"-ops", "scan"}, {"-rounds", "0"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// Nothing is built or measured for a report that cannot be written.
func TestNowhereToWrite(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no compiler
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(filepath.Join(dir, reportFile), 0o700)); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]error{file: syscall.ENOTDIR, dir: syscall.EISDIR} {
		if err := run(t.Context(), &options{out: out, rounds: 1}, io.Discard); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", out, err, want)
		}
	}
}

// Programs must come to the same result, whatever they are written in.
func TestTimes(t *testing.T) {
	l := &library{digests: map[unitKey]string{}}
	u := unit{transport: "shm", test: "heat", ranks: 2, count: 10}
	got, err := l.times(u, "time loop 2.5\ntime outside 0.5\nresult heat digest=1\n")
	want := []figure{{key{"shm", "heat loop", 2, 0}, 0.25}, {key{"shm", "heat outside", 2, 0}, 0.05}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"result heat digest=1\ntime loop 2.5\ntime outside 0.5\nresult heat digest=2\n", "time loop 1\ntime outside 1\n", ""} {
		if _, err := l.times(u, text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// The output of a program until it was ended counts.
func TestEnded(t *testing.T) {
	l := &library{limit: 1e9, launch: map[string][]string{"shm": {"/bin/sh", "-c", "printf '" + bench.Header + "\\nbarrier,0,1e-6,1e-6,1e-6\\nallreduce,8'; sleep 1000"}},
		program: func(unit) []string { return nil }}
	got, err := l.measure(t.Context(), unit{transport: "shm", test: "collectives", ranks: 4})
	want := []figure{{key{"shm", "barrier", 4, 0}, 1e-6}}
	if err == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// What is in C verifies its result, on a grid of ranks and on one rank.
func TestTwins(t *testing.T) {
	l := peers[0]
	if why := missing(l.mpicc, l.launch["shm"][0]); why != "" {
		t.Skip(why)
	}
	exe, err := l.compile(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	counts := []string{"1", "4", "8"}
	if testing.Short() {
		counts = counts[:2] // they wait busily
	}
	for _, program := range []string{"cg S", "is S", "mg S", "stencil 40 3"} {
		for _, ranks := range counts {
			args := slices.Concat(l.launch["shm"], []string{"-np", ranks, exe}, strings.Fields(program))
			out, err := bench.Output(t.Context(), time.Minute, nil, args...)
			if err != nil || !strings.Contains(out, "Verification: SUCCESSFUL\n") || !strings.Contains(out, "time outside ") {
				t.Errorf("%s on %s ranks: %v\n%s", program, ranks, err, out)
			}
		}
	}
}

func TestMissing(t *testing.T) {
	if why := missing("sh", "no-such-compiler"); why != "no-such-compiler is not installed" {
		t.Errorf("%q", why)
	}
}

// A daemon that cannot be started leaves nothing behind.
func TestNoDaemon(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	_, err := bootLAM(context.Background(), &library{})
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err == nil || errors.Is(err, context.DeadlineExceeded) || len(left) > 0 {
		t.Errorf("%v, left %q", err, left)
	}
}
