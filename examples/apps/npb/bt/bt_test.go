package main

import (
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

func TestVerify(t *testing.T)  { nastest.Verify(t, bt, 1, 2, 4) }
func TestRestart(t *testing.T) { nastest.Restart(t, bt, 2, 20) }
