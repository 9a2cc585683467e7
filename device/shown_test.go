package device_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/shown"
)

func TestEveryCallIsShown(t *testing.T) { shown.Check(t, shown.Calls(t)) }
