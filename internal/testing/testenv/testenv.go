// Package testenv is what tests have of the world around them: how long they are to go on, as the environment says, and waits
// for conditions that nothing announces.
package testenv

import (
	"os"
	"strconv"
	"testing"
)

// Number is the number in the environment's variable of that name, or what it usually
// is if there is none. What is not a number fails the test.
func Number(t testing.TB, name string, usually int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usually
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
