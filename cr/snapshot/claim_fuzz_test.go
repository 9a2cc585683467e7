package snapshot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/alive"
)

// FuzzClaims: whatever another head, or somebody else, has put where claims lie, it is a claim with a lease that can be
// waited for, or an error that names the file.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{`{"host":"n1","pid":4711,"lease":15000}`, `{"lease":-1}`, `{"lease":9223372036854775807}`, `[]`, "", `{"host":`} {
		f.Add([]byte(s))
	}
	root := f.TempDir()
	c, err := Open(root)
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(root, jobA)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	own, err := c.Claim(jobA, Claimant{Host: "n0", Process: alive.Process{PID: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { own.Close() })
	f.Fuzz(func(t *testing.T, p []byte) {
		if err := os.WriteFile(filepath.Join(dir, claimPrefix+"ffffffff-ffff-4fff-8fff-ffffffffffff"+claimSuffix), p, 0o600); err != nil {
			t.Fatal(err)
		}
		others, err := own.Others()
		if err != nil {
			return
		}
		for _, o := range others {
			if lease := time.Duration(o.Lease) * time.Millisecond; lease < 0 || lease > time.Hour {
				t.Fatalf("%q is a claim with a lease of %v", p, lease)
			}
		}
	})
}
