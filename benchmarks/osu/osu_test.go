package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// run runs the program on np ranks and returns what it prints.
func run(t *testing.T, np int, args ...string) string {
	t.Helper()
	o, err := parse(append([]string{"osu"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	mpitest.Run(t, np, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return osu(c, o, &out)
		}
		return osu(c, o, nil)
	})
	return out.String()
}

// read reads an output as scripts do: comments, then numbers in columns.
func read(t *testing.T, text string) (heads string, rows [][]float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			continue
		}
		if strings.HasPrefix(line, "#") {
			heads = line
			continue
		}
		if len(line) != len(heads) {
			t.Errorf("%q is not below %q", line, heads)
		}
		var row []float64
		for _, cell := range strings.Fields(line) {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				t.Fatalf("%q in %q", cell, line)
			}
			row = append(row, x)
		}
		rows = append(rows, row)
	}
	return heads, rows
}

// Every test runs on 2 and 4 ranks, short and with all columns, and prints a line for each size.
func TestAll(t *testing.T) {
	for _, x := range tests {
		for _, np := range []int{2, 4} {
			if x.single && np > 2 {
				continue
			}
			for _, full := range []bool{false, true} {
				args := []string{x.name, "-m", "2:8", "-i", "2", "-x", "1", "-t", "2"}
				if full {
					args = append(args, "-f")
				}
				out := run(t, np, args...)
				if !strings.HasPrefix(strings.TrimSpace(out), "# OSU MPI "+x.title+version+"\n") {
					t.Errorf("%s begins with %.60q", x.name, out)
				}
				heads, rows := read(t, out)
				o, _ := parse(append([]string{"osu"}, args...))
				want := len(o.heads())
				sizes := []float64{2, 4, 8}
				if x.unit == 4 {
					sizes = []float64{4, 8}
				}
				if x.sized() {
					want++
				} else {
					sizes = sizes[:1]
				}
				if len(rows) != len(sizes) {
					t.Fatalf("%s: %d lines in %q", x.name, len(rows), out)
				}
				for i, row := range rows {
					if len(row) != want || x.sized() && row[0] != sizes[i] {
						t.Errorf("%s: line %v below %q", x.name, row, heads)
					}
				}
			}
		}
	}
}

// Heads are what scripts look for, to the letter.
func TestHeads(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"osu_latency"}, "# OSU MPI Latency Test v5.9 on gorun\n# Size          Latency (us)\n"},
		{[]string{"osu_bw"}, "# OSU MPI Bandwidth Test v5.9 on gorun\n# Size      Bandwidth (MB/s)\n"},
		{[]string{"osu_mbw_mr", "-W", "8"}, "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9 on gorun\n# [ pairs: 3 ] [ window size: 8 ]\n# Size                  MB/s        Messages/s\n"},
		{[]string{"osu_mbw_mr", "-R", "0"}, "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9 on gorun\n# [ pairs: 3 ] [ window size: 64 ]\n# Size                  MB/s\n"},
		{[]string{"osu_allreduce"}, "\n# OSU MPI Allreduce Latency Test v5.9 on gorun\n# Size       Avg Latency(us)\n"},
		{[]string{"osu_reduce_scatter", "-f"}, "\n# OSU MPI Reduce_Scatter Latency Test v5.9 on gorun\n# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"},
		{[]string{"osu_bcast", "-c"}, "\n# OSU MPI Bcast Latency Test v5.9 on gorun\n# Size       Avg Latency(us)        Validation\n"},
		{[]string{"osu_barrier"}, "\n# OSU MPI Barrier Latency Test v5.9 on gorun\n# Avg Latency(us)\n"},
		{[]string{"osu_iallreduce"}, "\n# OSU MPI Non-blocking Allreduce Latency Test v5.9 on gorun\n# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n" +
			"# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n"},
	} {
		o, err := parse(append([]string{"osu"}, x.args...))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := o.header(&out, 3); err != nil || out.String() != x.want {
			t.Errorf("%q:\n%s", x.args, out.String())
		}
	}
}

// Every test that moves data checks them if asked to, with a word at the end of each line.
func TestChecked(t *testing.T) {
	for _, x := range tests {
		if !x.sized() {
			continue
		}
		np := 3
		if x.single {
			np = 2
		}
		out := run(t, np, x.name, "-c", "-m8:16", "-i", "2", "-x1", "-b", "multiple", "-k", "rotate")
		if strings.Count(out, "              Pass\n") != 2 || strings.Contains(out, "Fail") {
			t.Errorf("%s prints\n%s", x.name, out)
		}
	}
}

// What arrives damaged is told in its line, and by the error.
func TestFails(t *testing.T) {
	o, err := parse([]string{"osu", "osu_bcast", "-fc", "-m8:8", "-i2"})
	if err != nil || !o.full || !o.check {
		t.Fatalf("%+v, %v", o, err)
	}
	whole := o.t
	damaged := *whole
	damaged.do = func(b *patterns.Buffers) (func(int) error, patterns.Check) {
		do, check := whole.do(b)
		fill := check.Fill
		check.Fill = func(i int) { fill(i + i/101) } // the last repetition sends what no rank expects
		return do, check
	}
	o.t = &damaged
	var out bytes.Buffer
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if err := osu(c, o, &out); err == nil || err.Error() != "osu_bcast: 16 elements were wrong at 8 bytes" {
			return fmt.Errorf("the damage is told as %w", err)
		}
		return nil
	})
	if !strings.HasSuffix(out.String(), "           2              Fail\n") {
		t.Error(out.String())
	}
}

// Ranks beyond the pairs wait.
func TestPairs(t *testing.T) {
	out := run(t, 5, "osu_mbw_mr", "-p", "1", "-m", "8", "-i", "1")
	if !strings.Contains(out, "# [ pairs: 1 ] [ window size: 64 ]\n") {
		t.Error(out)
	}
	if _, rows := read(t, run(t, 5, "osu_multi_lat", "-m", "8", "-i", "1")); len(rows) != 5 {
		t.Errorf("%v", rows)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"/usr/bin/osu_bcast", "-m", "3:40", "--iterations", "7"})
	if err != nil || o.t.name != "osu_bcast" || !slices.Equal(o.all(), []int{3, 6, 12, 24}) {
		t.Fatalf("%+v, %v", o, err)
	}
	if reps, skip := o.repetitions(1 << 20); reps != 7 || skip != 10 {
		t.Errorf("%d and %d repetitions", reps, skip)
	}
	for args, want := range map[string][]int{"8": {0, 1, 2, 4, 8}, "1:4": {1, 2, 4}, "0:2": {0, 1, 2}, "2097152:": {2 << 20, 4 << 20}} {
		if o, err = parse([]string{"osu", "osu_latency", "-m", args}); err != nil || !slices.Equal(o.all(), want) {
			t.Errorf("-m %s: %v, %v", args, o.all(), err)
		}
	}
	for _, args := range [][]string{{}, {"osu_put_latency"}, {"osu_bw", "-W", "0"}, {"osu_bw", "-m", "8:4"}, {"osu_bw", "-m", "x"}, {"osu_bw", "extra"}, {"osu_bw", "-i", "-1"}, {"osu_bw", "-i", "0"}, {"osu_bw", "-R", "2"},
		{"osu_barrier", "-c"}, {"osu_bw", "-b", "two"}, {"osu_bcast", "-k", "fixed"}, {"osu_bcast", "-k", "1"}, {"osu_bcast", "-k", "fixed:-1"}, {"osu_bw", "-z"}} {
		if _, err := parse(append([]string{"osu"}, args...)); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, x := range []struct{ overall, compute, pure, want float64 }{{20, 10, 10, 0}, {10, 10, 10, 100}, {15, 10, 10, 50}, {40, 10, 10, 0}} {
		if got := overlap(x.overall, x.compute, x.pure); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// A test between two ranks says so on more.
func TestRanks(t *testing.T) {
	o, _ := parse([]string{"osu", "osu_bw"})
	p, _ := parse([]string{"osu", "osu_multi_lat", "-p", "3"})
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		for _, o := range []*options{o, p} {
			if err := osu(c, o, nil); err == nil || !strings.Contains(err.Error(), "ranks") {
				t.Errorf("%s: %v", o.t.name, err)
			}
		}
		return nil
	})
}
