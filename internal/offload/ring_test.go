package offload

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody makes the memory shorter under a process that has mapped it, and what could be is not taken.
func TestFileIsSealed(t *testing.T) {
	f, err := NewFile()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int64{0, Size - 1, Size + 1} {
		if err := f.Truncate(n); !errors.Is(err, unix.EPERM) {
			t.Errorf("to %d bytes: %v", n, err)
		}
	}
	// other is a file of memory as somebody else may have made it.
	other := func(flags int, size int64) *os.File {
		fd, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC|flags)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "other")
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := CheckFile(other(0, Size)); err == nil || !strings.Contains(err.Error(), "not sealed") {
		t.Errorf("without seals: %v", err)
	}
	if err := CheckFile(other(unix.MFD_ALLOW_SEALING, Size-1)); err == nil || !strings.Contains(err.Error(), "bytes instead of") {
		t.Errorf("too short: %v", err)
	}
	restored := other(unix.MFD_ALLOW_SEALING, Size)
	if err := CheckFile(restored); err != nil {
		t.Errorf("as a restore makes it: %v", err)
	}
	if err := restored.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("sealed late, and then cut: %v", err)
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := CheckFile(plain); err == nil {
		t.Error("a file of a disk is taken")
	}
}
