package main

import (
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

// TestRestart verifies class S, too.
func TestRestart(t *testing.T) { nastest.Restart(t, ft, 2, 3) }
func TestRefused(t *testing.T) { nastest.Refused(t, ft, 3, "power of two") }

func TestVerify(t *testing.T) {
	if os.Getenv("GORUN_NPB") == "" {
		t.Skip("TestRestart verifies class S; set GORUN_NPB to further ones")
	}
	nastest.Verify(t, ft, 1, 2, 4)
}
