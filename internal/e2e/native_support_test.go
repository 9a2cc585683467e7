package e2e

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native"
)

// needNative skips where whole processes cannot be imaged.
func needNative(t testing.TB) {
	t.Helper()
	if err := (native.Imager{}).Supported(); err != nil {
		t.Skipf("no images of whole processes on this machine: %v", err)
	}
}

// incrementals reports whether this machine can tell which pages have changed.
func incrementals(t testing.TB) bool {
	t.Helper()
	for _, f := range (native.Imager{}).Features() {
		if strings.HasPrefix(f.Name, "incremental images") {
			if f.Err != nil {
				t.Logf("%s: %v", f.Name, f.Err)
			}
			return f.Err == nil
		}
	}
	t.Fatal("native.Features does not tell of incremental images")
	return false
}
