package endian_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/system/endian"
)

func TestOrder(t *testing.T) {
	word := uint16(1)
	first := *(*byte)(unsafe.Pointer(&word))
	if endian.Big != (first == 0) {
		t.Errorf("Big is %v, the first byte of 1 is %d", endian.Big, first)
	}
	if want := map[bool]byte{false: endian.NameLittle, true: endian.NameBig}[endian.Big]; endian.Name != want {
		t.Errorf("Name is %d, want %d", endian.Name, want)
	}
	switch runtime.GOARCH {
	case "amd64", "arm64":
		if endian.Big {
			t.Error("big-endian on " + runtime.GOARCH)
		}
	case "s390x":
		if !endian.Big {
			t.Error("little-endian on s390x")
		}
	}
}
