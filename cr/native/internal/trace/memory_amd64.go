package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Memory is the address space of a process. Reading and writing works with any
// protection of the pages, whether the process is stopped or not.
type Memory struct{ fd int }

// OpenMemory opens that of process pid.
func OpenMemory(pid int) (*Memory, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/mem"
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Memory{fd}, nil
}

// Close may be called again.
func (m *Memory) Close() {
	if m != nil && m.fd >= 0 {
		unix.Close(m.fd)
		m.fd = -1
	}
}

// Peek fills p from addr.
func (m *Memory) Peek(p []byte, addr uint64) error {
	for len(p) > 0 {
		n, err := unix.Pread(m.fd, p, int64(addr))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("reading %d bytes at %#x: %w", len(p), addr, err)
		case n == 0:
			return fmt.Errorf("reading %d bytes at %#x: %w", len(p), addr, io.ErrUnexpectedEOF)
		}
		n = max(n, 0)
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

// Poke writes p at addr.
func (m *Memory) Poke(p []byte, addr uint64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(m.fd, p, int64(addr))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("writing %d bytes at %#x: %w", len(p), addr, err)
		case n == 0:
			return fmt.Errorf("writing %d bytes at %#x: %w", len(p), addr, io.ErrShortWrite)
		}
		n = max(n, 0)
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

// Word reads 8 bytes.
func (m *Memory) Word(addr uint64) (uint64, error) {
	var p [8]byte
	err := m.Peek(p[:], addr)
	return binary.LittleEndian.Uint64(p[:]), err
}
