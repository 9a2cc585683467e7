// Package cuda drives NVIDIA's devices through the driver API of CUDA, without cgo and without CUDA's toolkit.
//
// The libraries are loaded when Load is called: libcuda.so.1, which comes with NVIDIA's driver, and, the first time that CUDA C is to be
// compiled, NVRTC's libnvrtc. Where that is missing, programs bring PTX.
//
//	Alloc, Free     cuMemAlloc, cuMemFree             Build    NVRTC if it is CUDA C; cuModuleLoadDataEx
//	Write, Read     cuMemcpyHtoDAsync, ...DtoHAsync   Launch   cuLaunchKernel, between two events if times are wanted
//	Copy, Fill      cuMemcpyDtoDAsync, cuMemsetD8Async          Finish   cuStreamSynchronize
//
// A Queue is the device's primary context, current to the thread that has opened it, and one stream.
//
// # Kernels
//
// They have C linkage: extern "C" __global__. CUDA does not check arguments, it reads where they should be. So what
// a kernel takes is read from its PTX, and a launch with another number of arguments, or others' sizes, is refused.
//
// OpenCL counts items where CUDA counts blocks. A launch has as many threads as items: the local size is the block, the grid what
// remains. If it is left open, the block is the largest that divides the items, has at most 256 threads, and leaves no more blocks than a grid may have.
//
// Local memory is no parameter: the kernel's extern __shared__ array has room for all of it, in the order of the arguments, each beginning at a multiple of 16 bytes.
//
// # What was tried
//
// Tests run against a library of their own with the same functions, which keeps the order of a stream, wants a current
// context and fails when it is told to. TestGPU runs where there is NVIDIA's driver and a device. The tests of jobs in cmd/gorun-device run on a
// GPU, too, if GORUN_DEVICE_TESTS names one. Both passed on an H100 with the driver for CUDA 13.0.
package cuda

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// Library is CUDA as it was found.
type Library struct {
	api      *table
	compiler func() (*compiler, error) // loads NVRTC, once
	devices  int
}

// Options say what is loaded. The zero value loads what the system has.
type Options struct {
	Driver   string // path of libcuda.so.1
	Compiler string // path of libnvrtc
}

// ErrNone says that no driver is on this machine.
var ErrNone = errors.New("no CUDA on this machine")

// Load loads the driver. The errors say what to install: ErrNone, or why the driver that is there does not work. Libraries stay loaded until the process ends.
func Load(o Options) (*Library, error) {
	if o.Driver == "" {
		o.Driver = "libcuda.so.1"
	}
	handle, err := purego.Dlopen(o.Driver, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %s could not be loaded (%w); install NVIDIA's driver", ErrNone, o.Driver, err)
	}
	l := &Library{api: &table{}}
	if err := l.api.fill(handle, o.Driver); err != nil {
		return nil, err
	}
	l.compiler = loadOnce(o.Compiler)
	const noDevice = 100
	err = l.api.status(cuInit, 0)
	var e *Error
	if errors.As(err, &e) && e.Code == noDevice {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("NVIDIA's driver does not work: %w", err)
	}
	l.devices, err = l.api.count()
	return l, err
}

// Devices returns the devices in the driver's order. CUDA_VISIBLE_DEVICES changes that.
func (l *Library) Devices() ([]driver.Device, error) {
	var found []driver.Device
	for i := range l.devices {
		d := &device{lib: l}
		if err := d.describe(i); err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}
