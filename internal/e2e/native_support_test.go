package e2e

import (
	"errors"
	"testing"
)

// needNative skips where whole processes cannot be imaged.
func needNative(t testing.TB) {
	t.Helper()
	if err := errors.New("not in this version"); err != nil {
		t.Skipf("no native images on this machine: %v", err)
	}
}

// incrementals reports whether this machine can tell which pages have changed.
func incrementals(t testing.TB) bool { return false }
