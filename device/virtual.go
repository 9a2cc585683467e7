package device

import (
	"errors"
	"fmt"
	"slices"
)

// Devices are several, often virtual ones.
type Devices []*Device

// Virtual returns n devices on those that there are: number v is on device v mod their number. So a
// program may distribute its work once, on any hardware, and go on from a checkpoint with other
// devices. The devices are those that GORUN_DEVICE names, or else what All opens. Virtual devices
// on one device share its memory and its order, so that rows go from one to the other at no cost.
// Errors: as Open.
func Virtual(n int) (Devices, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: %d virtual devices", ErrArgument, n)
	}
	ids, err := chosen("")
	if err != nil {
		return nil, err
	}
	drivers := make([]*driver, min(n, len(ids)))
	ds := make(Devices, 0, n)
	for v := range n {
		p := v % len(ids)
		if v < len(ids) {
			if drivers[p], err = open(ids[p]); err != nil {
				return nil, errors.Join(err, ds.Close())
			}
		}
		ds = append(ds, &Device{drivers[p], fmt.Sprintf("/%d", v)})
	}
	return ds, nil
}

// All opens all devices that GORUN_DEVICE names. Without that it opens all GPUs and accelerators of OpenCL, or else of CUDA; where there are none, what OpenCL makes
// of processors, or else cpu:0. It leaves out devices that have no bodies for the kernels that the program has made so far, or no float64 that these need, if
// another one has. So make kernels in variables of packages, before any device is opened. Errors: as Open.
func All() (Devices, error) {
	ids, err := chosen("")
	if err != nil {
		return nil, err
	}
	return Virtual(len(ids))
}

// Close closes all, as Device.Close does.
func (ds Devices) Close() error {
	var failed []error
	for _, d := range ds.drivers() {
		failed = append(failed, d.p.Close())
	}
	return errors.Join(failed...)
}

// drivers are those of the devices, each once.
func (ds Devices) drivers() []*driver {
	var all []*driver
	for _, d := range ds {
		if !slices.Contains(all, d.d) {
			all = append(all, d.d)
		}
	}
	return all
}

// Measure runs the same work on each device, one after the other, for Split. run starts it; the first start, in which kernels are compiled, is
// not measured. Errors: those of run and its Events.
func (ds Devices) Measure(run func(d *Device) (Event, error)) error {
	speeds := map[*driver]float64{}
	for _, d := range ds {
		if speeds[d.d] != 0 {
			continue
		}
		if d.d.setTimed(true) {
			defer d.d.setTimed(false)
		}
		var last Times
		for range 2 {
			e, err := run(d)
			if err == nil {
				last, err = e.Wait()
			}
			if err != nil {
				return err
			}
		}
		if took := last.End.Sub(last.Start); took > 0 {
			speeds[d.d] = 1 / took.Seconds()
		}
	}
	if len(speeds) == len(ds.drivers()) {
		for d, speed := range speeds {
			d.weight = speed
		}
	}
	return nil
}

// Split deals n rows out to the devices by their speed: device i has those from bounds[i] to before bounds[i+1]. The speed is what Measure has found, else units times
// clock; virtual devices share that of theirs. The parts of one speed differ by one row at most.
func (ds Devices) Split(n int) (bounds []int) {
	bounds = make([]int, len(ds)+1)
	sum := 0.0
	for i, share := range ds.shares() {
		sum += share
		bounds[i+1] = min(n, int(float64(n)*sum+0.5))
	}
	bounds[len(ds)] = n
	return bounds
}

// shares are the devices' parts of the speed of all.
func (ds Devices) shares() []float64 {
	users, total := map[*driver]float64{}, 0.0
	for _, d := range ds {
		users[d.d]++
	}
	for _, d := range ds.drivers() {
		total += d.weight
	}
	shares := make([]float64, len(ds))
	for i, d := range ds {
		shares[i] = d.d.weight / users[d.d] / total
	}
	return shares
}
