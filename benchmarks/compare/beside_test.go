package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Endless loops run until they are stopped.
func TestBeside(t *testing.T) {
	for _, n := range []int{0, 2} {
		before := len(children(t))
		stop, err := startBeside(n)
		if err != nil {
			t.Fatal(err)
		}
		running := len(children(t)) - before
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if left := len(children(t)) - before; running != n || left != 0 {
			t.Errorf("%d loops of %d, and %d afterwards", running, n, left)
		}
	}
}

// children returns the ids of this process's children.
func children(t *testing.T) (ids []string) {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || files == nil {
		t.Skip("this kernel does not tell children: ", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil { // the thread has ended
			continue
		}
		ids = append(ids, strings.Fields(string(data))...)
	}
	return ids
}
