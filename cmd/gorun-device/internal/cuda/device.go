package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// device is a device of the driver.
type device struct {
	lib  *Library
	id   uintptr
	info offload.Info
	arch string // of compilers: "90"
}

// Info describes the device.
func (d *device) Info() offload.Info { return d.info }

// attributes of devices.
const (
	maxThreads   = 1
	clockRate    = 13 // kHz
	units        = 16
	computeMajor = 75
	computeMinor = 76
)

// describe asks about device i.
func (d *device) describe(i int) error {
	api := d.lib.api
	id, err := api.number(cuDeviceGet, uintptr(i))
	if err != nil {
		return err
	}
	d.id = uintptr(id)
	var errs []error
	get := func(attribute uintptr) int {
		v, err := api.number(cuDeviceGetAttribute, attribute, d.id)
		errs = append(errs, err)
		return v
	}
	major, minor := get(computeMajor), get(computeMinor)
	version, err := api.number(cuDriverGetVersion)
	errs = append(errs, err)
	memory, err := api.create(cuDeviceTotalMem, d.id)
	errs = append(errs, err)
	name := make([]byte, 256)
	errs = append(errs, api.status(cuDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), d.id))
	name, _, _ = bytes.Cut(name, []byte{0})
	d.arch = fmt.Sprintf("%d%d", major, minor)
	d.info = offload.Info{
		Kind: "gpu", Name: string(name), Platform: "CUDA",
		Version: fmt.Sprintf("CUDA %d.%d, compute capability %d.%d", version/1000, version%1000/10, major, minor),
		Memory:  uint64(memory), Units: get(units), MaxGroup: get(maxThreads), Double: true,
	}
	if khz, err := api.number(cuDeviceGetAttribute, clockRate, d.id); err == nil { // some drivers do not tell
		d.info.Clock = khz / 1000
	}
	return errors.Join(errs...)
}

// Open makes the device's primary context the thread's, and a stream.
func (d *device) Open() (driver.Queue, error) {
	api := d.lib.api
	context, err := api.create(cuDevicePrimaryCtxRetain, d.id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.info.Name, err)
	}
	q := &queue{device: d, api: api, opened: time.Now()}
	const apart = 1 // from the stream 0, which waits for all others
	err = api.status(cuCtxSetCurrent, context)
	if err == nil {
		q.stream, err = api.create(cuStreamCreate, apart)
	}
	if err == nil {
		err = q.setClock()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", d.info.Name, err), q.Close())
	}
	return q, nil
}
