// Package first is the first program of the guide, where gorun-device has devices for which its kernel has no body.
package first

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/device/internal/fake"
)

func TestMain(m *testing.M) {
	if fake.Main() {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var axpy = device.NewKernel(device.Go("axpy", func(w device.Work, y, x []float64, a float64) {
	for i, end := w.Range(0); i < end; i++ {
		y[i] += a * x[i]
	}
}))

// compute is what the guide does with a device.
func compute(d *device.Device) ([]float64, error) {
	x, y := device.NewArray[float64](3), device.NewArray[float64](3)
	in, err := x.HostW()
	if err != nil {
		return nil, err
	}
	copy(in, []float64{0, 1, 2})
	e, err := d.Run(axpy, []int{3}, nil, y.InOut(), x.In(), 3.5)
	if err != nil {
		return nil, err
	}
	if _, err := e.Wait(); err != nil {
		return nil, err
	}
	return y.Host()
}

// TestChosen runs the program as it is, and on virtual devices.
func TestChosen(t *testing.T) {
	d, err := device.Open("")
	if err != nil {
		t.Fatal(err)
	}
	ds, err := device.Virtual(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(ds, d) {
		if y, err := compute(d); err != nil || fmt.Sprint(y) != "[0 3.5 7]" {
			t.Errorf("%s: %v, %v", d.Info().ID, y, err)
		}
	}
	if err := append(ds, d).Close(); err != nil {
		t.Error(err)
	}
}

// TestNamed is told that the device it names has no body, once.
func TestNamed(t *testing.T) {
	d, err := device.Open("opencl:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = compute(d)
	want := "device opencl:0: kernel axpy: the kernel has no body for this device: add one with device.OpenCL"
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "opencl:0") > 1 {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestNumbers leaves the library out: it is the one whose devices run the kernels.
func TestNumbers(t *testing.T) {
	for _, c := range [][2]string{{"0", ""}, {"", "0"}, {"opencl:1", "cpu:0"}} {
		t.Setenv("GORUN_DEVICE", c[0])
		d, err := device.Open(c[1])
		if err != nil || d.Info().ID != "cpu:0" {
			t.Fatalf("%q: %v, %v", c, d, err)
		}
		d.Close()
	}
	if _, err := device.Open("1"); err == nil || !strings.Contains(err.Error(), "cpu:1") {
		t.Error(err)
	}
}
