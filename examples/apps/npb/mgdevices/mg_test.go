package main

import (
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

func TestVerify(t *testing.T)  { nastest.Verify(t, mg, 1, 2, 4, 16) }
func TestRestart(t *testing.T) { nastest.Restart(t, mg, 2, 3) }
func TestRefused(t *testing.T) { nastest.Refused(t, mg, 3, "power of two") }
