package device_test

import (
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/device/internal/fake"
)

// The tests and examples are about the device that is always there, unless they name another.
func TestMain(m *testing.M) {
	if !fake.Main() {
		os.Setenv("GORUN_DEVICE", "cpu:0")
		os.Exit(m.Run())
	}
}
