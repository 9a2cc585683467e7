package proc

import (
	"os"
	"testing"
)

func FuzzIdentity(f *testing.F) {
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Fuzz(func(t *testing.T, p []byte) { ParseIdentity(p) })
}
