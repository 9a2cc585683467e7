package device_test

import (
	"os"
	"testing"
)

// The tests and examples are about the device that is always there.
func TestMain(m *testing.M) {
	os.Setenv("GORUN_DEVICE", "cpu:0")
	os.Exit(m.Run())
}
