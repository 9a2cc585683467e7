package main

import (
	"os"
	"strings"
	"testing"
)

// dying is the environment's variable that lets the second process of a task die.
const dying = "GORUN_FLOOR_DYING"

func TestMain(m *testing.M) {
	text := os.Getenv(variable)
	switch {
	case text == "":
		os.Exit(m.Run())
	case os.Getenv(dying) != "" && strings.HasPrefix(text, "1 "):
		os.Exit(3)
	}
	process(text)
}

var tasks = []task{{Procs: 3, Bytes: -1, Batches: 4, Count: 10}, {Procs: 2, Bytes: 0, Batches: 4, Count: 10}, {Procs: 2, Bytes: 9000, Batches: 4, Count: 10}}

func TestMeasure(t *testing.T) {
	for _, x := range tasks {
		if times, err := x.measure(t.Context()); err != nil || len(times) != x.Batches {
			t.Errorf("%v: %v, %v", x, times, err)
		}
	}
}

// Where one process dies the others, which wait for it, are ended.
func TestProcessDies(t *testing.T) {
	t.Setenv(dying, "1")
	for _, x := range tasks {
		if _, err := x.measure(t.Context()); err == nil || err.Error() != "exit status 3" {
			t.Errorf("%v: %v", x, err)
		}
	}
}
