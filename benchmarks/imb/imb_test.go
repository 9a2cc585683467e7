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
		"\n# Calling sequence was: \n\n# imb PingPong -msglog 0 -iter 3 -iter_policy off\n",
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
	if !strings.Contains(out, "# ( 2 groups of 2 processes each running simultaneous ) \n# Group  0:     0    1\n# Group  1:     2    3\n# ( 1 additional process waiting in MPI_Barrier)\n") {
		t.Errorf("no groups in\n%s", out)
	}
	found := tables(t, out)
	if len(found) != 4 || found[0].name != "Multi-PingPong" || found[1].name != "Multi-Barrier" || found[3].name != "Barrier" || found[3].procs != 5 {
		t.Fatalf("%d tables in\n%s", len(found), out)
	}
	if got := column(found[0].rows, 0); found[0].heads[0] != "Group" || !slices.Equal(got, []float64{0, 1, 0, 1, 0, 1}) {
		t.Errorf("groups %v", got)
	}
	if worst := tables(t, run(t, 4, "-multi", "0", "PingPong", "-msglog", "0", "-iter", "2")); worst[0].name != "Multi-PingPong" || len(worst[0].rows) != 2 {
		t.Errorf("-multi 0: %+v", worst[0])
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
		return nil
	})
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(file, []byte("7 # seven\n\n0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"IMB-NBC", "-msglen", file, "-include", "ibcast_pure", "Ibarrier_pure", "-exclude", "Igather,Igatherv", "-npmin", "3", "-root_shift", "on", "-sync", "off"})
	if err != nil || !slices.Equal(o.sizes, []int{7, 0}) || o.npmin != 3 || !o.shift || o.sync || o.component.name != "IMB-NBC" {
		t.Fatalf("%+v, %v", o, err)
	}
	var names []string
	for _, x := range o.tests {
		names = append(names, x.name)
	}
	if slices.Contains(names, "Igather") || names[0] != "Iallreduce" || len(names) != 13-2+2 || names[len(names)-1] != "Ibarrier_pure" {
		t.Errorf("tests %v", names)
	}
	if got := o.counts(&test{}, 11); !slices.Equal(got, []int{3, 6, 11}) {
		t.Errorf("on %v ranks", got)
	}
	for _, args := range [][]string{{"Pingpang"}, {"-iter"}, {"-iter", "0"}, {"-iter", "1,x"}, {"-multi", "2"}, {"-msglog", "3:2"}, {"-msglog", "31"}, {"-time", "-1"},
		{"-mem", "NaN"}, {"-map", "3"}, {"-map", "2x3y"}, {"-off_cache", "1"}, {"-sync", "maybe"}, {"-input", "/nonexistent"}, {"-msglen", "/nonexistent"}, {"-msglen", os.DevNull},
		{"Barrier", "-exclude", "Barrier"}, {"-iter_policy", "auto"}, {"-npmin", "0"}} {
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
	}{{result{1, 1, 2}, 0}, {result{1, 1, 1}, 100}, {result{2, 2, 3}, 50}, {result{1, 1, 5}, 0}, {result{1, 1, 0.5}, 100}} {
		if got := x.r.overlap(); got != x.want {
			t.Errorf("%+v: %v, want %v", x.r, got, x.want)
		}
	}
	least, most, mean, slowest := summary([]result{{3, 0, 1}, nothing, {1, 1, 7}})
	if least != 1 || most != 3 || mean != 2 || slowest.Overlapped != 7 {
		t.Errorf("%v %v %v %+v", least, most, mean, slowest)
	}
}
