package device

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/device/provider"
)

// TestUsual chooses for programs that name no device.
func TestUsual(t *testing.T) {
	info := func(id string, kind provider.Kind) Info { return Info{ID: id, Kind: kind} }
	processor, gpu, second, same := info("opencl:0", provider.CPU), info("opencl:1", provider.GPU), info("opencl:2", provider.Accelerator), info("cuda:0", provider.GPU)
	goroutines := info("cpu:0", provider.CPU)
	for _, c := range []struct {
		want string
		of   []Info
	}{
		{"opencl:1 opencl:2", []Info{processor, gpu, second, same, goroutines}},
		{"cuda:0", []Info{processor, same, goroutines}},
		{"opencl:0", []Info{processor, goroutines}},
		{"cpu:0", []Info{goroutines}},
	} {
		if got := strings.Join(usual(c.of), " "); got != c.want {
			t.Errorf("of %v: %s, want %s", c.of, got, c.want)
		}
	}
}
