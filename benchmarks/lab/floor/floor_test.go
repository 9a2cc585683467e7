package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Variables by which a test tells this program to behave otherwise: one process
// ends at once; all say that they are there; the test binary itself measures.
const (
	dying    = "GORUN_FLOOR_DYING"
	greeting = "GORUN_FLOOR_GREETING"
	parent   = "GORUN_FLOOR_PARENT"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(variable); text != "" {
		t, err := parseTask(text)
		if os.Getenv(dying) != "" && t.Rank == 1 {
			os.Exit(3)
		}
		if os.Getenv(greeting) != "" {
			fmt.Fprintln(os.Stderr, os.Getpid())
		}
		if err = cmp.Or(err, process(text, os.Stdout)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(parent) != "" {
		_, _ = task{Work: "barrier", Procs: 3, Time: time.Hour, Batches: 1}.measure(context.Background())
		return
	}
	os.Exit(m.Run())
}

// small are tasks of all kinds.
func small(t *testing.T) (all []task) {
	o, err := parse([]string{"-procs", "4", "-sizes", "9000,16384", "-bulk", "4096", "-pieces", "512", "-edge", "16", "-cube", "6", "-time", "1ms", "-batches", "3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows(o) {
		all = append(all, r.tasks...)
	}
	return all
}

// All that can be measured is, and what arrives is what was sent: a process
// that finds anything else fails.
func TestMeasure(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range small(t) {
		seen[x.Work] = true
		m, err := x.measure(t.Context())
		if err != nil || len(m.all) == 0 || len(m.outside) != len(m.all) {
			t.Errorf("%v: %v, %v", x, m, err)
			continue
		}
		for i, v := range m.all {
			if out := m.outside[i]; !(v > 0) || out < 0 || out > v || (out > 0) != (x.Work == "heat" || x.Work == "solver") {
				t.Errorf("%v: %g s, %g outside", x, v, out)
			}
		}
	}
	for name := range works {
		if !seen[name] {
			t.Errorf("nobody asks for %s", name)
		}
	}
}

// The checks see what is wrong.
func TestChecks(t *testing.T) {
	for _, work := range append(wordWorks(), "copy", "pieces", "pieces, dirty", "stream, 7 a line", "alltoall", "bcast", "allreduce, parts", "allreduce, chain", "heat", "solver") {
		if wordOps[strings.Split(work, ",")[0]].none {
			continue
		}
		s := &shared{task: task{Work: work, Procs: 4, Rank: 1, Bytes: 1024, Piece: 512, Edge: 16, Cube: 6}, mem: make([]byte, buffers+1<<20)}
		s.seen = s.mem
		start := works[work].start
		if work == "solver" { // which begins with a sum of all
			start = func(s *shared) doing { return s.solve(alone{}) }
		}
		d := start(s)
		switch work {
		case "heat": // without the edges of others
			p := s.newPlate()
			for range 20 {
				p.Step()
			}
			d.check = func() error { return s.isPart(p, 20) }
		case "solver":
			d.do()
		}
		if d.check() == nil {
			t.Errorf("%s: nothing has arrived, and nobody has noticed", work)
		}
	}
}

// Where one process dies the others, which wait for it, are ended.
func TestProcessDies(t *testing.T) {
	t.Setenv(dying, "1")
	for _, x := range small(t) {
		if _, err := x.measure(t.Context()); err == nil || err.Error() != "exit status 3" {
			t.Errorf("%v: %v", x, err)
		}
	}
}

// Where the command is killed its processes end.
func TestParentDies(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), parent+"=1", greeting+"=1"), w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close() // what is left are those of the processes
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var pids []int
	s := bufio.NewScanner(r)
	for len(pids) < 3 && s.Scan() {
		pid := 0
		if _, err := fmt.Sscan(s.Text(), &pid); err != nil {
			t.Errorf("%q: %v", s.Text(), err)
		}
		pids = append(pids, pid)
	}
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	for s.Scan() {
		t.Errorf("a process says %q", s.Text())
	}
	if s.Err() != nil || len(pids) != 3 {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		t.Errorf("processes %v: %v", pids, s.Err())
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-tests", "bulk,heat", "-procs", "3", "-bulk", "4096", "-pieces", "96,1024,4096"})
	if err != nil || len(o.pieces) != 3 {
		t.Fatalf("%+v, %v", o, err)
	}
	var names bytes.Buffer
	for _, r := range rows(o) {
		fmt.Fprintln(&names, r.name, len(r.tasks))
	}
	// No piece is as many words for each of three processes, and all of the buffer.
	if got, want := names.String(), "heat, 3 processes 1\nheat, alone, 3 processes 1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, args := range []string{"-tests x", "-procs 1", "-procs 9999", "-sizes 0", "-sizes x", "-pieces ", "-bulk 0", "-edge 99999", "-cube 0", "-cube 101", "-time 0s", "-batches 0", "more"} {
		if _, err := parse(strings.Split(args, " ")); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// Pieces for which there is no room are left out.
func TestRoom(t *testing.T) {
	o, err := parse([]string{"-tests", "bulk", "-procs", "64", "-pieces", "65536,524288,1048576"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows(o) {
		work := r.tasks[0].Work
		if want := map[string]int{"alltoall": 2, "alltoall, kernel": 1, "bcast": 3, "allreduce, parts": 1, "allreduce, chain": 3}[work]; len(r.tasks) != want {
			t.Errorf("%s: %d sizes of pieces, want %d", work, len(r.tasks), want)
		}
	}
}
