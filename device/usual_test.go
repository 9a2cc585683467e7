package device

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/device/provider"
)

// TestUsual chooses for programs that name no device.
func TestUsual(t *testing.T) {
	info := func(id string, kind provider.Kind) Info { return Info{ID: id, Kind: kind, Double: true} }
	processor, gpu, second, same := info("opencl:0", provider.CPU), info("opencl:1", provider.GPU), info("opencl:2", provider.Accelerator), info("cuda:0", provider.GPU)
	goroutines := info("cpu:0", provider.CPU)
	single := Info{ID: "opencl:3", Kind: provider.GPU}
	all := []Info{processor, gpu, second, single, same, goroutines}

	inC, inCUDA := OpenCL("f", "kernel void f(global int *x) {}"), CUDA("f", "__global__ void f(int *x) {}")
	doubles, numbers := OpenCL("f", "kernel void f(global double *x) {}"), Go("f", func(Work, []int32) {})
	inGo := Go("f", func(Work, []float64) {})
	kernels := func(ks ...[]Body) [][]Body { return ks }
	of := func(b ...Body) []Body { return b }
	for name, c := range map[string]struct {
		want    string
		of      []Info
		kernels [][]Body
	}{
		"accelerators first":          {"opencl:1 opencl:2 opencl:3", all, nil},
		"of the first library":        {"cuda:0", []Info{processor, same, goroutines}, nil},
		"or else processors":          {"opencl:0", []Info{processor, goroutines}, nil},
		"or else goroutines":          {"cpu:0", []Info{goroutines}, nil},
		"Go alone":                    {"cpu:0", all, kernels(of(inGo))},
		"CUDA alone":                  {"cuda:0", all, kernels(of(inCUDA))},
		"CUDA and Go":                 {"cuda:0", all, kernels(of(inCUDA, inGo))},
		"no device of the language":   {"cpu:0", []Info{processor, goroutines}, kernels(of(inCUDA, inGo))},
		"OpenCL with float64":         {"opencl:1 opencl:2", all, kernels(of(doubles))},
		"float64 in the Go body":      {"cpu:0", []Info{single, goroutines}, kernels(of(doubles, inGo))},
		"no float64 in the Go body":   {"opencl:3", []Info{single, goroutines}, kernels(of(doubles, numbers))},
		"a device without its body":   {"opencl:0", []Info{processor}, kernels(of(inGo))},
		"one that lacks a body":       {"cpu:0", all, kernels(of(inC, numbers), of(numbers))},
		"all have their bodies":       {"opencl:1 opencl:2 opencl:3", all, kernels(of(inC, numbers), of(inC, inCUDA, numbers))},
		"none runs all: the first of": {"opencl:1 opencl:2 opencl:3", all, kernels(of(inC), of(numbers))},
	} {
		var made census
		for _, bodies := range c.kernels {
			k := NewKernel(bodies...)
			made.add(k)
		}
		if got := strings.Join(usual(c.of, &made), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
