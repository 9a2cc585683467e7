package benchmarks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/internal/testing/guest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// Every benchmark runs, for real and shortly, and prints what it is there for.
// The figures are shown, not judged: a shared machine has no right answer. Set
// GORUN_BENCH to run it.
func TestBenchmarks(t *testing.T) {
	if os.Getenv("GORUN_BENCH") == "" {
		t.Skip("GORUN_BENCH is not set")
	}
	dir := t.TempDir()
	race, times := filepath.Join(dir, "race"), filepath.Join(dir, "times.csv")
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"compare", []string{"-short", "-o", race}, contenders("Messages, time one way, over shm", "Messages, time one way, over tcp", "\nreduce_scatter", "\nstart", "\nsolver outside")},
		{"overhead", []string{"-rounds", "2", "-time", "20ms", "-batches", "3"},
			[]string{"with / without", "  1048576", "ratios are medians over 2 rounds"}},
		{"checkpoint", []string{"-cases", "4x16,8x1", "-rounds", "3", "-restarts", "1", "-o", times},
			[]string{"4 x 16 MB", "8 x 1 MB", "gate / copy warm", "restart"}},
		{"lab/floor", []string{"-procs", "2,5", "-batches", "2", "-time", "2ms", "-bulk", "5120", "-pieces", "1280,5120"},
			[]string{"barrier, 5 processes", "ping-pong of a word", "copy of 8192 bytes", "alltoall of 5 KB, 5 processes, pieces of ", "of it outside computation"}},
		{"programs", []string{"-class", "W", "-pairs", "1", "-every", "200ms", "cg"}, []string{"cg, class W, 4 ranks", "median "}},
		{"programs", []string{"-class", "S", "-np", "2", "-pairs", "1", "-rpi", "rdma", "-tag", "gorun_nolayer", "lu"}, []string{"with gorun_nolayer", "median "}},
		{"rxe", []string{"-rounds", "1", "-small", "100", "-large", "20"}, []string{"ib_send_lat", "ib_write_bw", "ratio"}},
		{"start", []string{"-rounds", "1", "-np", "2,3"}, []string{"added ms"}},
		{"levels", []string{"-short"}, []string{"stencil  memory", "heat     node's disk", "solver   shared disk"}},
		{"bookmarks", []string{"-staggered", "64,1024", "-sparse", "64,1000"}, []string{"staggered", "sparse, 6 neighbours"}},
	} {
		if c.name == "levels" && testenv.Number(t, "GORUN_BENCH_LEVELS", 1) == 0 { // it takes a minute
			continue
		}
		if c.name == "rxe" && lacks(t) {
			continue
		}
		exe, err := bench.Build(dir, filepath.Base(c.name), "benchmarks/"+c.name)
		if err != nil {
			t.Fatal(err)
		}
		out, err := bench.Output(t.Context(), 8*time.Minute, nil, append([]string{exe}, c.args...)...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		t.Logf("%s %s\n%s", c.name, strings.Join(c.args, " "), out)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not print %q", c.name, want)
			}
		}
	}
	samples, report := filepath.Join(race, "samples.csv"), filepath.Join(race, "report.html")
	for file, head := range map[string]string{samples: "transport,test,ranks,bytes,contender,round,seconds\nshm,", report: "<!DOCTYPE html>", times: "case,what,seconds,low,high\n4 x 16 MB,"} {
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), head) {
			t.Errorf("%s begins with %.60q, %v", filepath.Base(file), text, err)
		}
	}
}

// lacks tells what the machine has not that soft-RoCE is measured with. In CI that is an error.
func lacks(t *testing.T) bool {
	_, err := guest.Find()
	if err == nil {
		_, err = exec.LookPath("ib_send_lat")
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Error(err)
	} else if err != nil {
		t.Logf("rxe: skipped: %v", err)
	}
	return err != nil
}

// contenders adds to what is wanted those who must take part in CI, where all are
// installed.
func contenders(want ...string) []string {
	want = append(want, "gorun")
	if os.Getenv("CI") == "true" {
		want = append(want, "openmpi", "mpich", "lam", "NPopenmpi", "NPtcp")
	}
	return want
}

// Netpipe's modes run between two processes over TCP; with -integrity every
// byte arrives.
func TestNetpipe(t *testing.T) {
	world, err := bench.NewWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	netpipe, err := bench.Build(world.Bin, "netpipe", "benchmarks/netpipe")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"-integrity", "-stream", "-window", "-bidir", "-dirty", "-rate"} {
		args := []string{world.Gorun, "-np", "2", "-rpi", "tcp", netpipe, mode, "-time", "1ms", "-batches", "1", "-sizes", "1,8192,300000"}
		out, err := bench.Output(t.Context(), time.Minute, nil, args...)
		if err != nil {
			t.Errorf("netpipe %s: %v", mode, err)
			continue
		}
		if lines := strings.Count(out, "\n"); lines < 3 || !strings.Contains(out, "300000") {
			t.Errorf("netpipe %s prints\n%s", mode, out)
		}
	}
}
