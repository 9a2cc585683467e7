package trace

import (
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
)

func TestMain(m *testing.M) { nativetest.Main(m) }
