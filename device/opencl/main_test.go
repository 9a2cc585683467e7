package opencl_test

import (
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/device/internal/fake"
)

func TestMain(m *testing.M) {
	if !fake.Main() {
		os.Exit(m.Run())
	}
}
