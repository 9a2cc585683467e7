package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestKindColumn tells full snapshots from those that build on others.
func TestKindColumn(t *testing.T) {
	var out, errs bytes.Buffer
	v := &viewer{std: stdio{out: &out, err: &errs}}
	for _, bases := range [][]int{nil, {7}, {9, 8}} {
		v.rows = append(v.rows, row{Job: "j", Seq: 10, Created: time.Unix(0, 0), NP: 2, Bases: bases, Program: "p"})
	}
	if err := v.print(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || strings.Count(lines[0], "KIND") != 1 {
		t.Fatal(out.String())
	}
	at := strings.Index(lines[0], "KIND")
	for i, want := range []string{"full", "on 7", "on 9,8"} {
		if !strings.HasPrefix(lines[i+1][at:], want+" ") {
			t.Errorf("%q is not %q", lines[i+1][at:], want)
		}
	}
}
