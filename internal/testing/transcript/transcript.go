// Package transcript plays files of events and actions against pure state machines, in tests.
//
//	head of 1                      the first line says which machine it is
//	# A comment is kept.
//	> all-up                       an event
//	> request 1 native
//		make folder                an action of the machine; lines after an event, with a tab
//
// The words of events and actions are the package's that is tested. With -update the files are written again
// with what happens now.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what happens now")

// Machine is what a transcript talks to.
type Machine interface {
	// Do feeds an event, in words, and returns the actions, a line each.
	Do(event []string) (actions []string, err error)
}

// Play plays the files that match the pattern, each as a test of its own. The function makes a machine of a
// file's first line.
func Play(t *testing.T, pattern string, machine func(line string) (Machine, error)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file, machine) })
	}
}

func play(t *testing.T, file string, machine func(line string) (Machine, error)) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := now(t, file, string(text), machine)
	if got == string(text) {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, have := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i := range min(len(want), len(have)) {
		if want[i] != have[i] {
			t.Fatalf("%s:%d:\nwant %s\ngot  %s\n\nwhole run:\n%s", file, i+1, want[i], have[i], got)
		}
	}
	t.Fatalf("%s: want %d lines, got %d:\n%s", file, len(want), len(have), got)
}

// now returns the transcript with the actions of today's machine.
func now(t *testing.T, file, text string, machine func(line string) (Machine, error)) string {
	var m Machine
	var got strings.Builder
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		event, isEvent := strings.CutPrefix(line, ">")
		isComment := line == "" || strings.HasPrefix(line, "#")
		if !isEvent && !isComment && m != nil {
			continue // an action of the machine as it was
		}
		got.WriteString(line + "\n")
		var err error
		switch {
		case isComment:
		case m == nil:
			m, err = machine(line)
		default:
			var actions []string
			actions, err = m.Do(strings.Fields(event))
			for _, a := range actions {
				got.WriteString("\t" + a + "\n")
			}
		}
		if err != nil {
			t.Fatalf("%s:%d: %s: %v", file, n+1, line, err)
		}
	}
	return got.String()
}
