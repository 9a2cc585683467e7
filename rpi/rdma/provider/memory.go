package provider

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapped reports whether memory is there, for providers in software: nil, ErrUnmapped, or ErrRequest if it is empty.
func Mapped(buf []byte) error {
	if len(buf) == 0 {
		return fmt.Errorf("%w: no bytes", ErrRequest)
	}
	page := uintptr(unix.Getpagesize())
	begin := uintptr(unsafe.Pointer(&buf[0])) &^ (page - 1)
	end := uintptr(unsafe.Pointer(&buf[len(buf)-1])) + 1
	seen := make([]byte, (end-begin+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, begin, end-begin, uintptr(unsafe.Pointer(&seen[0])))
	if errno != 0 {
		return fmt.Errorf("%w: %d bytes: %w", ErrUnmapped, len(buf), errno)
	}
	return nil
}
