package main

import (
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

func TestVerify(t *testing.T)  { nastest.Verify(t, is, 1, 2, 4, 7) }
func TestRestart(t *testing.T) { nastest.Restart(t, is, 4, 5) }
