package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-cases", "2x8,64x1", "-rounds", "3"})
	if err != nil || !reflect.DeepEqual(o.cases, []job{{2, 8}, {64, 1}}) || o.rounds != 3 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"-cr=native"}); err != nil || len(o.cases) != 5 || o.cases[2] != (job{1, 1024}) {
		t.Errorf("native: %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-cr", "other"}, {"-cases", "4"}, {"-cases", "x1"}, {"-cases", "0x1"}, {"-cases", "4x-1"}, {"-rounds", "0"}, {"more"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// Nothing is built or measured for figures that cannot be written.
func TestNowhereToWrite(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no compiler
	out := filepath.Join(t.TempDir(), "none", "times.csv")
	if err := run(t.Context(), &options{out: out}, io.Discard); err == nil || !strings.Contains(err.Error(), out) {
		t.Error(err)
	}
}

// Ratios are taken within the rounds, and targets held against them.
func TestFigures(t *testing.T) {
	f := newFigures()
	j := job{4, 256}
	for _, drift := range []time.Duration{1, 5, 2} {
		f.add(j, "gate", 120*drift*time.Millisecond)
		f.add(j, "copy warm", 100*drift*time.Millisecond)
		f.add(j, "raw write", 600*drift*time.Millisecond)
		f.add(j, "commit", 1000*drift*time.Millisecond)
	}
	var out strings.Builder
	missed := f.print(&out, j, "self")
	for _, want := range []string{"gate / copy warm 1.20", "commit at 60 %", "1.3 times the copy in memory: reached", "80 % of the raw write's speed: MISSED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if missed != 1 {
		t.Errorf("%d targets missed, want 1", missed)
	}
	if csv := string(f.csv()); !strings.HasPrefix(csv, "case,what,seconds,low,high\n4 x 256 MB,gate,0.24,0.18,0.42\n") {
		t.Errorf("csv is\n%s", csv)
	}
}

// The raw write leaves the bytes on the disk, and the copy is one.
func TestRaw(t *testing.T) {
	dir := t.TempDir()
	r, err := newRaw(dir, job{3, 5})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if string(r.to) != string(r.from) {
		t.Error("the copy differs")
	}
	if err := r.write(3); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range []string{"0", "1", "2"} {
		part, err := os.ReadFile(filepath.Join(dir, "raw", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
	}
	if string(all) != string(r.from) {
		t.Error("the files do not hold the bytes")
	}
	f := newFigures()
	if err := r.clean(); err != nil {
		t.Fatal(err)
	}
	if err := r.measure(job{3, 5}, f); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"copy warm", "copy fresh", "raw write"} {
		if v := f.values[job{3, 5}][what]; len(v) != 1 || !(v[0] > 0) {
			t.Errorf("%s: %v", what, v)
		}
	}
}

func TestLongestGap(t *testing.T) {
	at := func(ns int64) time.Time { return time.Unix(0, ns) }
	if d, err := longestGap(" 100:50 200:30 300:90", at(140), at(220)); err != nil || d != 50 {
		t.Errorf("%v, %v, want 50 ns", d, err)
	}
	if _, err := longestGap("100", at(0), at(1)); err == nil {
		t.Error("a gap without length was accepted")
	}
}

// Targets of native images depend on the case.
func TestNativeTargets(t *testing.T) {
	f := newFigures()
	j := job{1, 1024}
	f.add(j, "pause", 30*time.Millisecond)
	f.add(j, "raw write", time.Second)
	f.add(j, "commit", time.Second)
	f.add(j, "restart", 2*time.Second)
	f.addValue(j, "beside data", 3<<20)
	f.addValue(j, "full", 100)
	f.addValue(j, "incremental", 7)
	f.addValue(j, "growth", 200<<20)
	var out strings.Builder
	if missed := f.print(&out, j, "native"); missed != 1 {
		t.Errorf("%d targets missed, want 1", missed)
	}
	for _, want := range []string{"34.0 ms: reached", "first message <= 1124 ms: MISSED", "7.0 % of a full one", "grows by 20 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
