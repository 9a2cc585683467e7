package offload

import (
	"fmt"
	"strconv"
	"strings"
)

// DeviceID is the ID of a device of OpenCL that may be named by its number, or of another one; "" is no device.
func DeviceID(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	library, number, ok := strings.Cut(name, ":")
	if !ok {
		library, number = "opencl", name
	}
	if _, err := strconv.ParseUint(number, 10, 31); err != nil || library == "" {
		return "", fmt.Errorf("%q is no ID of a device, as opencl:0; gorun devices lists them", name)
	}
	return library + ":" + number, nil
}

// DeviceNumber is the number of a device that is to take what another one has: OpenCL's do.
func DeviceNumber(name string) (int, error) {
	id, err := DeviceID(name)
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(id, "opencl:")
	if !ok {
		return 0, fmt.Errorf("%s: what was on a device goes on on one of opencl, as opencl:1", id)
	}
	return strconv.Atoi(number)
}
