package testenv

import (
	"testing"
	"time"
)

// patience is how long a condition may take to come true, on a machine that is very busy.
const patience = time.Minute

// Until waits for a condition that nothing announces: what is in /proc, in a folder, or within another process.
// wrong says what is not yet so; "" ends the wait.
func Until(t testing.TB, wrong func() string) {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		text := wrong()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("after ", patience, ": ", text)
		}
	}
}
