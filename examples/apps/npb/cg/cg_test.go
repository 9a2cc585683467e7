package main

import (
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

func TestVerify(t *testing.T)  { nastest.Verify(t, cg, 1, 2, 4, 6) }
func TestRestart(t *testing.T) { nastest.Restart(t, cg, 4, 8) }
