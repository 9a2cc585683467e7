// Package code holds machine code that is put into processes that are restored. It
// refers to no address: it may stand anywhere.
package code

import (
	"bytes"
	"unsafe"
)

// Batch is a loop that makes one system call after another. batch_amd64.s tells what it
// wants in which registers.
func Batch() []byte { return cloneOf(batchCode()) }

// Clock is clock_gettime with an offset. In place of the address of the kernel's function
// and of the seconds and nanoseconds that CLOCK_MONOTONIC and CLOCK_BOOTTIME are behind it
// has words all of whose bytes are 1, 2, 3, 4 and 5.
func Clock() []byte { return cloneOf(clockCode()) }

// batchCode and clockCode give the first byte of each.
func batchCode() *byte
func clockCode() *byte

// cloneOf copies code from start to the two UNDEF instructions that end it.
func cloneOf(start *byte) []byte {
	const most = 512
	p := unsafe.Slice(start, most)
	return bytes.Clone(p[:bytes.Index(p, []byte{0x0f, 0x0b, 0x0f, 0x0b})])
}
