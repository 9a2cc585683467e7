package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// TestMain is the command itself where a test has started it.
func TestMain(m *testing.M) {
	if os.Getenv("TUNE_COMMAND") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Help is no failure, wrong flags are told from others, and a file that cannot
// be written is found before anything is built.
func TestStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none", "tuned")
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-h"}, 0, "-slack"},
		{[]string{"-ops", "bcast,scan"}, 2, `tune: no collective "scan", only ` + strings.Join(measured, ", ")},
		{[]string{"-o", file}, 1, "tune: open " + file},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), "TUNE_COMMAND=1", "PATH=")
		out, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("%q ends with %d and says\n%s", c.args, status, out)
		}
	}
}

// timingOf makes times of a few contenders; all others are slow.
func timingOf(op string, ranks int, times map[coll.Algorithm][]float64, sizes []int) *timing {
	t := &timing{op: op, ranks: ranks, seconds: map[contender]map[int][]float64{}}
	for _, c := range contenders(op) {
		for i, size := range sizes {
			seconds := 1e6
			if x := times[c.algorithm]; x != nil && c.segment == 0 {
				seconds = x[i]
			}
			t.add(c, size, seconds)
		}
	}
	return t
}

// The table says what was the fastest, without a change that is hardly worth it,
// and can be read.
func TestRules(t *testing.T) {
	many := 2 * runtime.NumCPU()
	o := &options{ranks: []int{many, 4 * many}, slack: 0.05}
	sizes := []int{8, 128, 2048, 32768}
	first := timingOf("allreduce", many, map[coll.Algorithm][]float64{
		coll.Central: {1, 2, 5, 9}, coll.Doubling: {2, 1.95, 3, 8}, coll.Halving: {9, 9, 3.1, 2},
	}, sizes)
	second := timingOf("allreduce", 4*many, map[coll.Algorithm][]float64{coll.Central: {1, 1, 1, 1}}, sizes)
	rules := append(first.rules(o, 0), second.rules(o, 1)...)
	limit := (coll.Rule{MaxRanks: 2 * many, MaxBytes: math.MaxInt}).String()
	_, limit, _ = strings.Cut(limit, ":")
	_, above, _ := strings.Cut(coll.Rule{MinRanks: 2*many + 1, MaxRanks: math.MaxInt, MaxBytes: math.MaxInt}.String(), ":")
	want := "central:crowded,node," + limit + ",b=-512/doubling:crowded,node," + limit + ",b=513-8k/halving:crowded,node," + limit + ",b=8193-/central:crowded,node," + above
	if got := coll.Format(rules); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if _, err := coll.BuiltIn().With(map[string]string{"coll.allreduce": want}); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	if o, err := parse([]string{"-ranks", "2,8", "-sizes", "8,64"}); err != nil || len(o.ranks) != 2 || o.sizes[1] != 64 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-ranks", "1"}, {"-ranks", "4,2"}, {"-sizes", "x"}, {"-rounds", "0"}, {"more"}, {"-ops", "scan"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	for _, op := range measured {
		if len(contenders(op)) < 2 {
			t.Errorf("%s has no choice", op)
		}
	}
}
