package main

import (
	"os"
	"strings"
	"testing"
)

// TestSwapsAtOnce has two users want something of the same devices at the same instant. Each gets an answer, what is done is what one of them wants, and the program
// goes on.
func TestSwapsAtOnce(t *testing.T) {
	j := newJobs(t)
	want, err := j.run("-np", "2", "./turns", "-steps", "300")
	if err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	id, wait := j.start("./turns", "-steps", "300", "-pace", "10ms", "-hold", "on")
	j.processes(id)
	from, to := number(j.id), number(j.other)
	for _, pair := range []struct {
		wishes [2][]string
		state  string // of the devices then
	}{
		{[2][]string{{"swap-out", id}, {"swap-out", id}}, ": swapped out"},
		{[2][]string{{"swap-in", id}, {"swap-in", id}}, ": process "},
		{[2][]string{{"migrate", id, "-device", from, "-to", to}, {"swap-out", id}}, ""}, // whoever comes last
		{[2][]string{{"swap-out", id}, {"swap-out", id}}, ": swapped out"},
		{[2][]string{{"swap-in", id, "-device", from}, {"swap-in", id, "-device", to}}, ": process "},
	} {
		j.both(pair.wishes)
		out, err := j.run("status", id)
		if err != nil || pair.state != "" && strings.Count(out, pair.state) != 2 {
			t.Errorf("after %q: %v: %s", pair.wishes, err, out)
		}
	}
	fail(t, os.WriteFile(j.dir+"/on", nil, 0o600))
	if out, err := wait(); err != nil || digestLine.FindString(out) != digestLine.FindString(want) {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// both runs two commands at once. One that has nothing left to do may say so.
func (j *jobs) both(wishes [2][]string) {
	j.t.Helper()
	var outs [2]string
	var errs [2]error
	done := make(chan struct{})
	for i, args := range wishes {
		go func() {
			outs[i], errs[i] = j.run(args...)
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	for i, err := range errs {
		if err != nil && !strings.Contains(outs[i], "nothing is swapped out") && !strings.Contains(outs[i], "that is not swapped out") {
			j.t.Errorf("%q: %v: %s", wishes[i], err, outs[i])
		}
	}
}
