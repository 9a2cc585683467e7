package main

import (
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

// One rank alone takes a good part of a second, so only one number of ranks is tried: one that does not divide the batches.
func TestVerify(t *testing.T) { nastest.Verify(t, ep, 3) }

func TestRestart(t *testing.T) { nastest.Restart(t, ep, 2, 20) }
