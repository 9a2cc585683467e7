package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
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
	o, err := parse(append([]string{"imb"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	mpitest.Run(t, np, func(c *mpi.Comm) error { return imb(c, o, &out) })
	return out.String()
}

// table is what a script reads of one test.
type table struct {
	name  string
	procs int
	heads []string
	rows  [][]float64
}

// tables reads an output as scripts do: by the titles, and numbers in columns of fixed width.
func tables(t *testing.T, text string) (all []*table) {
	t.Helper()
	var now *table
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# Benchmarking "); ok {
			now = &table{name: strings.TrimSpace(name)}
			all = append(all, now)
			continue
		}
		if now == nil || line == "" {
			continue
		}
		if strings.HasPrefix(line, "#") {
			fmt.Sscanf(line, "# #processes = %d", &now.procs)
			continue
		}
		if now.heads == nil {
			now.heads = cells(t, line)
			continue
		}
		var row []float64
		for _, cell := range cells(t, line) {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				t.Fatalf("%s: %q in %q", now.name, cell, line)
			}
			row = append(row, x)
		}
		if len(row) != len(now.heads) {
			t.Fatalf("%s: %d cells in %q, %d heads", now.name, len(row), line, len(now.heads))
		}
		now.rows = append(now.rows, row)
	}
	return all
}

func cells(t *testing.T, line string) (all []string) {
	if len(line)%width != 0 {
		t.Fatalf("%q is not in columns of %d", line, width)
	}
	for ; line != ""; line = line[width:] {
		all = append(all, strings.TrimSpace(line[:width]))
	}
	return all
}

// Every test of both components runs on 2 and 4 ranks, with the columns of its kind and a line for each size.
func TestAll(t *testing.T) {
	for _, c := range components {
		var names []string
		for _, x := range c.tests {
			names = append(names, x.name)
		}
		args := append([]string{c.name, "-msglog", "1:3", "-iter", "2"}, names...)
		found := tables(t, run(t, 4, args...))
		for _, x := range c.tests {
			for _, np := range []int{2, 4} {
				if x.pair && np > 2 {
					continue
				}
				if len(found) == 0 || found[0].name != x.name || found[0].procs != np {
					t.Fatalf("%s on %d ranks is not in its place", x.name, np)
				}
				got := found[0]
				found = found[1:]
				if !slices.Equal(got.heads, columns[x.shape]) {
					t.Errorf("%s: columns %q", x.name, got.heads)
				}
				want := []float64{0, 2, 4, 8}
				if x.unit == 4 {
					want = []float64{0, 4, 8}
				}
				if !x.shape.sized() {
					want = []float64{2} // the repetitions
				}
				if first := column(got.rows, 0); !slices.Equal(first, want) {
					t.Errorf("%s: lines for %v, want %v", x.name, first, want)
				}
			}
		}
		if len(found) > 0 {
			t.Errorf("%s was not asked for", found[0].name)
		}
	}
}

func column(rows [][]float64, i int) (all []float64) {
	for _, r := range rows {
		all = append(all, r[i])
	}
	return all
}

// The header of a PingPong is what scripts look for, to the letter.
func TestOutput(t *testing.T) {
	out := run(t, 3, "PingPong", "-msglog", "0", "-iter", "3", "-iter_policy", "off")
	for _, want := range []string{
		"\n# Calling sequence was: \n\n# imb PingPong -msglog 0 -iter 3 -iter_policy off \n",
		"\n# Maximum message length in bytes:   1\n", "\n# List of Benchmarks to run:\n\n# PingPong\n",
		"\n#---------------------------------------------------\n# Benchmarking PingPong \n# #processes = 2 \n# ( 1 additional process waiting in MPI_Barrier)\n" +
			"#---------------------------------------------------\n       #bytes #repetitions      t[usec]   Mbytes/sec\n            0            3 ",
		"\n# All processes entering MPI_Finalize\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// -multi runs groups at once, and shows each if asked to.
func TestMulti(t *testing.T) {
	out := run(t, 5, "-multi", "1", "PingPong", "Barrier", "-msglog", "0:1", "-iter", "2")
	if !strings.Contains(out, "# ( 2 groups of 2 processes each running simultaneous ) \n# Group  0:     0    1\n# \n# Group  1:     2    3\n# \n# ( 1 additional process waiting in MPI_Barrier)\n") {
		t.Errorf("no groups in\n%s", out)
	}
	found := tables(t, out)
	if len(found) != 4 || found[0].name != "Multi-PingPong" || found[1].name != "Multi-Barrier" || found[3].name != "Barrier" || found[3].procs != 5 {
		t.Fatalf("%d tables in\n%s", len(found), out)
	}
	if got := column(found[0].rows, 0); found[0].heads[0] != "Group" || !slices.Equal(got, []float64{0, 1, 0, 1, 0, 1}) {
		t.Errorf("groups %v", got)
	}
	worst := tables(t, run(t, 4, "-multi", "0", "PingPong", "-msglog", "0", "-iter", "2"))[0]
	if worst.name != "Multi-PingPong" || len(worst.rows) != 2 || !slices.Equal(worst.heads, columns[timesAndRate]) {
		t.Errorf("-multi 0: %+v", worst)
	}
	if out := run(t, 4, "-map", "2x2", "Barrier", "-npmin", "4", "-iter", "1"); !strings.Contains(out, "# #processes = 4; rank order (rowwise): \n#     0    2\n# \n#     1    3\n# \n#-") {
		t.Errorf("no grid in\n%s", out)
	}
}

// Buffers beyond -mem are not made, and the volume bounds repetitions.
func TestBounds(t *testing.T) {
	out := run(t, 2, "Alltoall", "-mem", "0.000005", "-msglog", "10:11", "-iter", "7")
	if !strings.Contains(out, "\n         2048 out-of-mem.; needed X=   0.000 GB; use flag \"-mem X\"\n") || strings.Contains(out, "1024 out-of-mem") {
		t.Errorf("no bound in\n%s", out)
	}
	found := tables(t, run(t, 2, "Bcast", "-msglog", "19:20", "-iter", "7,1"))
	if got := column(found[0].rows, 1); !slices.Equal(got, []float64{7, 2, 1}) {
		t.Errorf("repetitions %v", got)
	}
	found = tables(t, run(t, 2, "Barrier", "-time", "1e-9"))
	if got := column(found[0].rows, 0); !slices.Equal(got, []float64{1}) {
		t.Errorf("repetitions in no time: %v", got)
	}
}

// Words for on and off, and how many repetitions each policy has.
func TestPolicies(t *testing.T) {
	o, err := parse([]string{"imb", "-sync", "disable", "-root_shift", "YES", "-imb_barrier", "1", "-zero_size", "no", "-warm_up", "false", "-iter", "100,40,7", "-off_cache", "0.5,64", "-thread_level", "single"})
	if err != nil || o.sync || !o.shift || !o.messages || o.warm || o.sizes[0] != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	bcast := &test{unit: 1, root: true, room: blocks(1)}
	if n := o.copies(bcast, 4, 1<<18); n != 4 {
		t.Errorf("%d sets of buffers of 256 KB miss a cache of 512 KB", n)
	}
	for _, x := range []struct {
		policy   string
		root     bool
		np, size int
		want     int
		timed    bool
	}{{"dynamic", true, 3, 0, 100, true}, {"dynamic", true, 3, 4 << 20, 10, true}, {"off", true, 3, 4 << 20, 100, false},
		{"multiple_np", false, 3, 0, 99, false}, {"multiple_np", false, 3, 4 << 20, 24, false}, {"auto", true, 3, 4 << 20, 24, false}, {"auto", false, 3, 4 << 20, 10, true}} {
		o.policy, bcast.root = x.policy, x.root
		if n := o.repetitions(bcast, x.np, x.size); n != x.want || o.timed(bcast) != x.timed {
			t.Errorf("%+v: %d repetitions, timed %v", x, n, o.timed(bcast))
		}
	}
}

// Every test checks its data if asked to, with buffers that are taken in turn and a barrier of messages, too.
func TestChecked(t *testing.T) {
	for _, c := range components {
		var names []string
		for _, x := range c.tests {
			names = append(names, x.name)
		}
		args := append([]string{c.name, "-check", "on", "-msglog", "3:4", "-iter", "3", "-off_cache", "-1", "-imb_barrier", "on", "-root_shift", "on", "-npmin", "3"}, names...)
		for _, x := range tables(t, run(t, 3, args...)) {
			last := len(x.heads) - 1
			if strings.HasSuffix(strings.ToLower(x.name), "barrier") || strings.HasSuffix(strings.ToLower(x.name), "barrier_pure") {
				continue
			}
			if x.heads[last] != "defects" || slices.ContainsFunc(column(x.rows, last), func(n float64) bool { return n != 0 }) || len(x.rows) != 3 {
				t.Errorf("%+v", x)
			}
		}
	}
}

// What arrives damaged is counted, and fails the run.
func TestDefects(t *testing.T) {
	o, err := parse([]string{"imb", "Bcast", "-check", "on", "-msglog", "3:3", "-iter", "2"})
	if err != nil {
		t.Fatal(err)
	}
	whole := o.tests[0].on
	damaged := *o.tests[0]
	damaged.on = func(s *sample) patterns.Calls {
		calls := whole(s)
		fill := calls.Fill
		calls.Fill = func(i int) { fill(i + i) } // repetition 1 sends what no rank expects
		return calls
	}
	o.tests = []*test{&damaged}
	var out bytes.Buffer
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if err := imb(c, o, &out); err == nil || err.Error() != "16 elements were wrong" {
			return fmt.Errorf("the damage is told as %w", err)
		}
		return nil
	})
	found := tables(t, out.String())
	if got := column(found[0].rows, 5); !slices.Equal(got, []float64{0, 16}) {
		t.Errorf("defects %v", got)
	}
}

// -list names the tests of a component, and those that only run when they are named.
func TestList(t *testing.T) {
	if out := run(t, 2, "-list"); !strings.HasPrefix(out, "List of benchmarks:\nIMB-MPI1:\n    PingPong\n    PingPongSpecificSource (non-default)\n") {
		t.Error(out)
	}
}

// -map changes who is a neighbour of whom.
func TestMap(t *testing.T) {
	o := &options{columns: 2, rows: 2}
	mpitest.Run(t, 5, func(c *mpi.Comm) error {
		m, err := o.mapped(c)
		if err != nil {
			return err
		}
		defer m.Free()
		if want := []int{0, 2, 1, 3, 4}[c.Rank()]; m.Rank() != want {
			return fmt.Errorf("rank %d is %d, want %d", c.Rank(), m.Rank(), want)
		}
		if _, err := (&options{columns: 3, rows: 2}).mapped(c); err == nil {
			return fmt.Errorf("a grid of 6 ranks was made of 5")
		}
		return nil
	})
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(file, []byte("7 # seven\n\n0\n2k\n1M\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"IMB-NBC", "-msglen", file, "-include", "ibcast_pure", "Ibarrier_pure", "-exclude", "Igather,Igatherv", "-npmin", "3", "-root_shift", "on", "-sync", "off"})
	if err != nil || !slices.Equal(o.sizes, []int{7, 0, 2048, 1 << 20}) || o.npmin != 3 || !o.shift || o.sync || o.component.name != "IMB-NBC" {
		t.Fatalf("%+v, %v", o, err)
	}
	var names []string
	for _, x := range o.tests {
		names = append(names, x.name)
	}
	if slices.Contains(names, "Igather") || names[0] != "Iallreduce" || len(names) != 13-2+2 || names[len(names)-1] != "Ibarrier_pure" {
		t.Errorf("tests %v", names)
	}
	for _, x := range []struct {
		test *test
		all  int
		want []int
	}{{&test{}, 11, []int{3, 6, 11}}, {&test{}, 2, []int{2}}, {&test{even: true}, 11, []int{4, 8, 10}}, {&test{even: true}, 1, nil}, {&test{pair: true}, 11, []int{2}}, {&test{pair: true}, 1, nil}} {
		if got := o.counts(x.test, x.all); !slices.Equal(got, x.want) {
			t.Errorf("%+v: on %v of %d ranks", x.test, got, x.all)
		}
	}
	if got := o.fitting(&test{unit: 4}); !slices.Equal(got, []int{8, 0, 2048, 1 << 20}) {
		t.Errorf("sizes of reductions %v", got)
	}
	for _, args := range [][]string{{"Pingpang"}, {"-iter"}, {"-iter", "0"}, {"-iter", "1,x"}, {"-multi", "2"}, {"-msglog", "3:2"}, {"-msglog", "31"}, {"-time", "-1"},
		{"-mem", "NaN"}, {"-map", "3"}, {"-map", "2x3y"}, {"-off_cache", "0"}, {"-off_cache", "1,0"}, {"-iter", "1,2,3,4"}, {"-window_size", "0"}, {"-thread_level", "many"}, {"-data_type", "int"}, {"-sync", "maybe"}, {"-input", "/nonexistent"}, {"-msglen", "/nonexistent"}, {"-msglen", os.DevNull},
		{"Barrier", "-exclude", "Barrier"}, {"-iter_policy", "never"}, {"-npmin", "0"}} {
		if _, err := parse(append([]string{"imb"}, args...)); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// What is hidden of the shorter of the two counts.
func TestOverlap(t *testing.T) {
	for _, x := range []struct {
		r    result
		want float64
	}{{result{1, 1, 2, 0}, 0}, {result{1, 1, 1, 0}, 100}, {result{2, 2, 3, 0}, 50}, {result{1, 1, 5, 0}, 0}, {result{1, 1, 0.5, 0}, 100}} {
		if got := x.r.overlap(); got != x.want {
			t.Errorf("%+v: %v, want %v", x.r, got, x.want)
		}
	}
	least, most, mean, slowest := summary([]result{{3, 0, 1, 0}, nothing, {1, 1, 7, 0}})
	if least != 1 || most != 3 || mean != 2 || slowest.Overlapped != 7 {
		t.Errorf("%v %v %v %+v", least, most, mean, slowest)
	}
}
