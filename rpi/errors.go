package rpi

import (
	"errors"
	"fmt"
)

// Errors of the engine, to be matched with errors.Is. What is returned wraps
// one of them and says which rank, tag and how many bytes were concerned. None
// is made on a path where nothing went wrong.
var (
	ErrTruncate   = errors.New("message longer than the receive buffer")
	ErrType       = errors.New("wrong element type")
	ErrRank       = errors.New("rank out of range")
	ErrTag        = errors.New("tag out of range")
	ErrRequest    = errors.New("not an active request")
	ErrPeerFailed = errors.New("peer failed")
	ErrAborted    = errors.New("job aborted")
	ErrCanceled   = errors.New("canceled")
	ErrPoisoned   = errors.New("communicator failed")
	ErrDeadline   = errors.New("gave up waiting") // also wraps the context's error
)

// errCorrupt ends the connection that a frame came from: the frame names
// something that cannot be.
var errCorrupt = errors.New("rpi: corrupt frame")

// CutError is what Saved returns when one member of a team has taken a turn that
// another has not: the cut goes through a collective.
type CutError struct {
	Ctx   uint64 // of the team
	Rank  int    // a member other than this rank
	Ahead bool   // it is the one that has
}

func (e *CutError) Error() string {
	if e.Ahead {
		return fmt.Sprintf("rpi: rank %d has taken a turn of context %#x that this rank has not", e.Rank, e.Ctx)
	}
	return fmt.Sprintf("rpi: this rank has taken a turn of context %#x that rank %d has not", e.Ctx, e.Rank)
}

func truncated(got uint64, room int, src int, tag int32) error {
	return fmt.Errorf("%w: %d bytes from rank %d with tag %d, room for %d", ErrTruncate, got, src, tag, room)
}

func mistyped(got uint32, want *Type, src int, tag int32) error {
	return fmt.Errorf("%w: rank %d sent type %#x with tag %d, the receive wants %s (%#x)",
		ErrType, src, got, tag, want.Name, want.ID)
}

func peerFailed(rank int, cause error) error {
	return fmt.Errorf("%w: rank %d: %w", ErrPeerFailed, rank, cause)
}
