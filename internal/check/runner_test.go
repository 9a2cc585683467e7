package main

import (
	"io"
	"strings"
	"testing"
)

// TestFailuresSaidAgain writes the output of two packages, one of which failed, in pieces.
func TestFailuresSaidAgain(t *testing.T) {
	const said = `=== RUN   TestA
    a_test.go:1: fine
--- PASS: TestA (0.00s)
=== RUN   TestB
--- FAIL: TestB (0.10s)
    --- FAIL: TestB/x (0.10s)
        b_test.go:7: got 1
            want 2
    --- PASS: TestB/y (0.00s)
        b_test.go:9: fine
FAIL
FAIL	example.com/b	0.1s
ok  	example.com/c	0.2s
panic: test timed out

goroutine 1 [running]:
FAIL	example.com/d	9s
`
	want := []string{"--- FAIL: TestB (", "--- FAIL: TestB/x", "got 1", "want 2", "FAIL\texample.com/b", "panic:", "", "goroutine 1", "FAIL\texample.com/d"}
	c := &check{stdout: io.Discard}
	l := &lines{c: c, prefix: "unit| "}
	for i := 0; i < len(said); i += 7 {
		io.WriteString(l, said[i:min(i+7, len(said))])
	}
	if len(c.failures) != len(want) {
		t.Fatalf("said again: %q", c.failures)
	}
	for i, w := range want {
		if !strings.Contains(c.failures[i], w) {
			t.Errorf("line %d: %q, want %q in it", i, c.failures[i], w)
		}
	}
}
