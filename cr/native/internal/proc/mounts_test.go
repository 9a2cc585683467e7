package proc

import (
	"slices"
	"testing"
)

func TestParseMounts(t *testing.T) {
	got, err := ParseMounts([]byte("36 35 254:1 /a /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n20 1 0:5 / /dev rw - devtmpfs none rw\n"))
	if want := []Mount{{254<<20 | 1, "/mnt 2"}, {5, "/dev"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseMounts([]byte("36 35 fe:1 / /\n")); err == nil {
		t.Error("a device that is none")
	}
}

func FuzzMounts(f *testing.F) { fuzzProc(f, "mountinfo", func(p []byte) { ParseMounts(p) }) }
