package restore

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// renumber puts the new process and thread ids into a pending signal that the
// process sent to itself.
func renumber(p []byte, old, now int) []byte {
	const (
		codeAt, pidAt = 8, 16
		user, queue   = 0, -1
		tkill         = -6
	)
	q := append([]byte(nil), p...)
	switch int32(le.Uint32(q[codeAt:])) {
	case user, queue, tkill:
		if int(int32(le.Uint32(q[pidAt:]))) == old {
			le.PutUint32(q[pidAt:], uint32(now))
		}
	}
	return q
}

// errXState is the reason where vector registers do not fit this processor.
var errXState = fmt.Errorf("%w: room for a thread's vector registers", state.ErrHost)

// fitXState brings what XSAVE kept elsewhere into the size that it has here. The
// components up to AVX-512 lie at the same offsets on all processors; the rest
// beyond the size here must be unused.
func fitXState(saved, here []byte) ([]byte, error) {
	const componentsAt = 512 // what of the rest is in use
	if len(saved) == len(here) {
		return saved, nil
	}
	used := le.Uint64(saved[componentsAt:])
	const fixed = 0xe7 // x87, SSE, AVX, AVX-512
	need := state.XStateHeader
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
