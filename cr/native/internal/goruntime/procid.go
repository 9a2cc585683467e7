// Package goruntime is what images know of Go: the build id of an executable, and
// where the run-time keeps the ids of its threads.
package goruntime

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The Go runtime keeps the kernel's id of each thread in the field procid of its
// struct m, to send preemption signals to it; after a restore it must be the new
// id. Where the field lies is found by its content, so that no table of Go
// versions is needed.

// Where the runtime keeps what leads there.
const (
	TlsG   = 8     // g is the word below the thread's fs_base
	GM     = 0x30  // of g.m
	MStart = 0x100 // procid lies within so many bytes of m
)

// ErrProcID is the reason where the field cannot be told.
var ErrProcID = errors.New("the Go runtime's note of a thread's id was not found where it should be")

// ProcIDOffset finds the one offset at which the start of every thread's m holds
// that thread's id.
func ProcIDOffset(ms [][]byte, tids []int) (int, error) {
	found := -1
	for off := 0; off+8 <= MStart; off += 8 {
		all := true
		for i, m := range ms {
			if binary.LittleEndian.Uint64(m[off:]) != uint64(tids[i]) {
				all = false
				break
			}
		}
		switch {
		case all && found >= 0:
			return 0, fmt.Errorf("%w: words %#x and %#x both hold it", ErrProcID, found, off)
		case all:
			found = off
		}
	}
	if found < 0 {
		return 0, ErrProcID
	}
	return found, nil
}
