package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cuda"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/opencl"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// found is a device of this machine.
type found struct {
	driver.Device
	info offload.Info
}

// library is a way to devices.
type library struct {
	name    string
	devices func() ([]driver.Device, error) // errNone: it is not here
}

// libraries in the order of the list.
var libraries = []library{{"opencl", openCL}, {"cuda", cudaDevices}}

// find returns all devices of this machine, or those of one library. A library that is not here is no error if another one is. One that is here and
// does not work is, and the devices of the others are returned.
func find(only string) ([]found, error) {
	limit, err := memoryLimit()
	if err != nil {
		return nil, err
	}
	var all []found
	var none, broken []error
	asked := 0
	for _, l := range libraries {
		if only != "" && only != l.name {
			continue
		}
		asked++
		devices, err := l.devices()
		switch {
		case errors.Is(err, errNone):
			none = append(none, err)
		case err != nil:
			broken = append(broken, err)
		}
		for i, d := range devices {
			info := d.Info()
			info.Library, info.Number = l.name, i
			if limit > 0 {
				info.Memory = min(info.Memory, limit)
			}
			all = append(all, found{d, info})
		}
	}
	if asked > 0 && len(none) == asked {
		return nil, errors.Join(none...)
	}
	return all, errors.Join(broken...)
}

// memoryLimit is what devices have at most, 0: all their memory.
func memoryLimit() (uint64, error) {
	text := os.Getenv(offload.EnvMemory)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s=%q is no number of bytes", offload.EnvMemory, text)
	}
	return n, nil
}

var errNone = errors.New("not on this machine")

// absent is an error that is errNone as well.
type absent struct{ error }

func (absent) Is(target error) bool { return target == errNone }

func openCL() ([]driver.Device, error) {
	l, err := opencl.Load(opencl.Options{})
	if errors.Is(err, opencl.ErrNone) {
		return nil, absent{err}
	}
	if err != nil {
		return nil, err
	}
	return l.Devices()
}

func cudaDevices() ([]driver.Device, error) {
	l, err := cuda.Load(cuda.Options{})
	if errors.Is(err, cuda.ErrNone) {
		return nil, absent{err}
	}
	if err != nil {
		return nil, err
	}
	return l.Devices()
}
