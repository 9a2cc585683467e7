package opencl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
)

const (
	platformName = 0x0902

	deviceType       = 0x1000
	deviceUnits      = 0x1002
	deviceMaxGroup   = 0x1004
	deviceClock      = 0x100c
	deviceMaxAlloc   = 0x1010
	deviceMemory     = 0x101f
	deviceName       = 0x102b
	deviceVersion    = 0x102d
	deviceExtensions = 0x1030

	allDevices = 0xffffffff
)

// device is a device of a platform.
type device struct {
	platform platform
	id       uintptr
	info     offload.Info
	maxAlloc int64
}

// Devices returns the devices of all platforms, in the order in which OpenCL tells them.
func (l *Library) Devices() ([]driver.Device, error) {
	var found []driver.Device
	for _, p := range l.platforms {
		ids, err := p.deviceIDs()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			d := &device{platform: p, id: id}
			if d.info, err = d.describe(); err != nil {
				return nil, err
			}
			found = append(found, d)
		}
	}
	return found, nil
}

func (p platform) deviceIDs() ([]uintptr, error) {
	n := new(uint32)
	err := p.api.status(getDeviceIDs, p.id, allDevices, 0, 0, uintptr(unsafe.Pointer(n)))
	var e *Error
	if errors.As(err, &e) && e.Code == -1 || err == nil && *n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]uintptr, *n)
	return ids, p.api.status(getDeviceIDs, p.id, allDevices, uintptr(*n), uintptr(unsafe.Pointer(&ids[0])), 0)
}

// Info describes the device.
func (d *device) Info() offload.Info { return d.info }

func (d *device) describe() (offload.Info, error) {
	var errs []error
	get := func(c call, id, param uintptr) []byte {
		value, err := d.platform.api.info(c, id, param)
		if err != nil {
			errs = append(errs, err)
		}
		return value
	}
	i := offload.Info{
		Kind:     kind(number(get(getDeviceInfo, d.id, deviceType))),
		Name:     text(get(getDeviceInfo, d.id, deviceName)),
		Platform: text(get(getPlatformInfo, d.platform.id, platformName)),
		Version:  text(get(getDeviceInfo, d.id, deviceVersion)),
		Memory:   uint64(number(get(getDeviceInfo, d.id, deviceMemory))),
		Units:    int(number(get(getDeviceInfo, d.id, deviceUnits))),
		Clock:    int(number(get(getDeviceInfo, d.id, deviceClock))),
		MaxGroup: int(number(get(getDeviceInfo, d.id, deviceMaxGroup))),
		Double:   strings.Contains(text(get(getDeviceInfo, d.id, deviceExtensions)), "cl_khr_fp64"),
	}
	d.maxAlloc = number(get(getDeviceInfo, d.id, deviceMaxAlloc))
	return i, errors.Join(errs...)
}

// kind makes a word of the bits of a device's type. A simulator may have several: Oclgrind has all.
func kind(bits int64) string {
	switch bits &^ 1 {
	case 1 << 1:
		return "cpu"
	case 1 << 2:
		return "gpu"
	case 1 << 3:
		return "accelerator"
	}
	return "other"
}

func text(value []byte) string { return strings.TrimSpace(strings.TrimRight(string(value), "\x00")) }

// number reads an unsigned number of 4 or 8 bytes.
func number(value []byte) int64 {
	switch len(value) {
	case 4:
		return int64(binary.NativeEndian.Uint32(value))
	case 8:
		return int64(binary.NativeEndian.Uint64(value))
	}
	return 0
}

// Open makes a context and a queue that keeps the order and takes times.
func (d *device) Open() (driver.Queue, error) {
	api := d.platform.api
	ids := []uintptr{d.id}
	context, err := api.create(createContext, 0, 1, uintptr(unsafe.Pointer(&ids[0])), 0, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.info.Name, err)
	}
	const takeTimes = 1 << 1
	q, err := api.create(createCommandQueue, context, d.id, takeTimes)
	if err != nil {
		api.status(releaseContext, context)
		return nil, fmt.Errorf("%s: %w", d.info.Name, err)
	}
	return &queue{device: d, api: api, context: context, id: q}, nil
}
