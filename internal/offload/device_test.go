package offload

import (
	"strings"
	"testing"
)

// TestNames has people leave the library of a device out, and refuses what is no device or of another library.
func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"0": true, "cuda:12": true, "opencl:0": true, "cpu:0": false, "": false, "cuda:": false, ":1": false, "-1": false, "a:b:1": false} {
		if err := CheckDevice(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if !SameDevice("1", "cuda:1") || !SameDevice("cuda:1", "cuda:1") || SameDevice("1", "cuda:11") || SameDevice("opencl:1", "cuda:1") {
		t.Error("a name is that of the device with its ID, or its number")
	}
	for _, c := range [][3]string{{"cuda:0", "1", "cuda:1"}, {"cuda:0", "cuda:2", "cuda:2"}, {"opencl:3", "0", "opencl:0"}, {"opencl:3", "", "opencl:3"}} {
		if got, err := InPlaceOf(c[0], c[1]); got != c[2] || err != nil {
			t.Errorf("%s in place of %s: %s, %v", c[1], c[0], got, err)
		}
	}
	if _, err := InPlaceOf("cuda:0", "opencl:0"); err == nil || !strings.Contains(err.Error(), "portable image") {
		t.Errorf("another library: %v", err)
	}
}
