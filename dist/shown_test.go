package dist_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/exampletest"
)

func TestEveryCallIsShown(t *testing.T) { exampletest.Check(t, exampletest.Calls(t)) }
