package offload

import (
	"fmt"
	"strconv"
	"strings"
)

// A device is known by its ID, "cuda:0": the library that drives it, and its number among the library's. People may leave the library out
// where it follows from what they speak of.

// CheckName refuses a name that is neither the ID nor the number of a device.
func CheckName(name string) error {
	library, number, ok := strings.Cut(name, ":")
	if !ok {
		library, number = "opencl", name
	}
	if _, err := strconv.ParseUint(number, 10, 31); err != nil || library == "" {
		return fmt.Errorf("%q is no ID of a device, as opencl:0, cuda:0, cpu:0 or 0; gorun devices lists them", name)
	}
	return nil
}

// CheckDevice also refuses devices that gorun does not move.
func CheckDevice(name string) error {
	if CheckName(name) != nil || strings.HasPrefix(name, "cpu:") {
		return fmt.Errorf("%q is no ID of a device that is moved, as opencl:0, cuda:0 or 0; gorun devices lists them", name)
	}
	return nil
}

// SameDevice reports whether a name, which may be a number only, is that of the device with an ID.
func SameDevice(name, id string) bool {
	_, number, _ := strings.Cut(id, ":")
	return name == id || name == number
}

// InPlaceOf is the ID of the device, named so, that takes what another one has; without a name it is that one itself. It is of the same library, for which the
// kernels are.
func InPlaceOf(id, name string) (string, error) {
	if name == "" {
		return id, nil
	}
	of, _, _ := strings.Cut(id, ":")
	library, _, ok := strings.Cut(name, ":")
	if !ok {
		return of + ":" + name, nil
	}
	if library != of {
		return "", fmt.Errorf("what was on %s cannot go on on %s: its kernels are for %s; a restart from a portable image (-cr=self) takes any device", id, name, of)
	}
	return name, nil
}

// ID of a device that gorun-device has told of.
func (i *Info) ID() string { return fmt.Sprintf("%s:%d", i.Library, i.Number) }
