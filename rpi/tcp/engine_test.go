package tcp

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
)

func TestEnginesWithCheckpoints(t *testing.T) { moduletest.Checkpoints(t, build, nil) }

// BenchmarkCollect is a garbage collection while 16 ranks of a process sleep.
func BenchmarkCollect(b *testing.B) { moduletest.Collect(b, 16, build) }
