package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Every collective is measured at every size on few and on many ranks, also
// where there is less than a word for each.
func TestCollectives(t *testing.T) {
	for _, np := range []int{1, 2, 5} {
		for _, csv := range []bool{false, true} {
			o := &options{ops: ops, sizes: []int{8, 4000}, batches: 2, time: time.Millisecond, csv: csv}
			var out bytes.Buffer
			mpitest.Run(t, np, func(c *mpi.Comm) error { return collectives(c, o, &out) })
			if got, want := strings.Count(out.String(), "\n"), 1+1+2*(len(ops)-1); got != want {
				t.Errorf("%d ranks: %d lines, want %d:\n%s", np, got, want, out.String())
			}
		}
	}
}

// Every operation that may be hidden is measured at every size; a share is between none and all.
func TestOverlap(t *testing.T) {
	o := &options{sizes: []int{8, 4000}, batches: 2, time: time.Millisecond, overlap: true, csv: true}
	var out bytes.Buffer
	mpitest.Run(t, 2, func(c *mpi.Comm) error { return collectives(c, o, &out) })
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+2*len(hideables) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for _, line := range lines[1:] {
		var name string
		var bytes int
		var alone, computing, both, hidden float64
		fields := strings.ReplaceAll(line, ",", " ")
		if _, err := fmt.Sscan(fields, &name, &bytes, &alone, &computing, &both, &hidden); err != nil || min(alone, computing, both) <= 0 || hidden < 0 || hidden > 1 {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-ops", "bcast,barrier", "-sizes", "8,64"})
	if err != nil || len(o.ops) != 2 || o.ops[1].name != "barrier" || len(o.sizes) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-ops", "scan"}, {"-sizes", "7"}, {"-sizes", "x"}, {"-batches", "0"}, {"-time", "0s"}, {"extra"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
