package native

import (
	"errors"
	"fmt"
)

// The Go runtime keeps the kernel's id of each thread in the field procid of its
// struct m, to send preemption signals to it; after a restore it must be the new
// id. Where the field lies is found by its content, so that no table of Go
// versions is needed.

// Where the runtime keeps what leads there.
const (
	tlsG   = 8     // g is the word below the thread's fs_base
	gM     = 0x30  // of g.m
	mStart = 0x100 // procid lies within so many bytes of m
)

// errProcID is the reason where the field cannot be told.
var errProcID = errors.New("the Go runtime's note of a thread's id was not found where it should be")

// procIDOffset finds the one offset at which the start of every thread's m holds
// that thread's id.
func procIDOffset(ms [][]byte, tids []int) (int, error) {
	found := -1
	for off := 0; off+8 <= mStart; off += 8 {
		all := true
		for i, m := range ms {
			if le.Uint64(m[off:]) != uint64(tids[i]) {
				all = false
				break
			}
		}
		switch {
		case all && found >= 0:
			return 0, fmt.Errorf("%w: words %#x and %#x both hold it", errProcID, found, off)
		case all:
			found = off
		}
	}
	if found < 0 {
		return 0, errProcID
	}
	return found, nil
}

// renumber puts the new process and thread ids into a pending signal that the
// process sent to itself.
func (p SigInfo) renumber(old, now int) SigInfo {
	const (
		codeAt, pidAt = 8, 16
		user, queue   = 0, -1
		tkill         = -6
	)
	q := append(SigInfo(nil), p...)
	switch int32(le.Uint32(q[codeAt:])) {
	case user, queue, tkill:
		if int(int32(le.Uint32(q[pidAt:]))) == old {
			le.PutUint32(q[pidAt:], uint32(now))
		}
	}
	return q
}

// errXState is the reason where vector registers do not fit this processor.
var errXState = fmt.Errorf("%w: room for a thread's vector registers", ErrHost)

// fitXState brings what XSAVE kept elsewhere into the size that it has here. The
// components up to AVX-512 lie at the same offsets on all processors; whatever
// is beyond the size here must be unused.
func fitXState(saved, here []byte) ([]byte, error) {
	const componentsAt = 512 // what of the rest is in use
	if len(saved) == len(here) {
		return saved, nil
	}
	used := le.Uint64(saved[componentsAt:])
	const fixed = 0xe7 // x87, SSE, AVX, AVX-512
	need := xstateHeader
	if used&^fixed != 0 {
		return nil, errXState
	}
	if used&4 != 0 {
		need = 832
	}
	if used&0xe0 != 0 {
		need = 2688
	}
	if need > len(here) || need > len(saved) {
		return nil, errXState
	}
	fit := make([]byte, len(here))
	copy(fit, saved)
	// The words that tell the size are the kernel's own.
	const ownAt, ownEnd = 464, 512
	copy(fit[ownAt:ownEnd], here[ownAt:ownEnd])
	return fit, nil
}
