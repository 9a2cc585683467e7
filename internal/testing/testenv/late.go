package testenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Late reports whether GORUN_UNTIL, in seconds since 1970, is over. A test of random rounds then begins no further one, but
// for the few without which it would show nothing, and says how many it had. Without the variable it is never late.
func Late(t testing.TB) bool {
	t.Helper()
	s := os.Getenv("GORUN_UNTIL")
	if s == "" {
		return false
	}
	end, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("GORUN_UNTIL: %v", err)
	}
	return time.Now().Unix() >= end
}
