package engine

import (
	"errors"
	"fmt"
)

// Errors of the engine, to be matched with errors.Is. A returned error wraps one of them and says
// which rank, tag and how many bytes were concerned.
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
	ErrGaveUp     = errors.New("gave up waiting for others")
	ErrFinalized  = errors.New("the other rank is in Finalize")
)

// errCorrupt ends the connection that a frame came from: the frame names something impossible.
var errCorrupt = errors.New("corrupt frame")

// TruncateError is the ErrTruncate of a receive that has got a part of its message.
type TruncateError struct {
	Source int
	Tag    int32
	Bytes  uint64 // length of the message
	Room   int    // bytes of it that were delivered
}

func (e *TruncateError) Error() string {
	return fmt.Sprintf("%v: %d bytes from rank %d with tag %d, room for %d", ErrTruncate, e.Bytes, e.Source, e.Tag, e.Room)
}

// Unwrap returns ErrTruncate.
func (e *TruncateError) Unwrap() error { return ErrTruncate }

// TypeError is the ErrType of a receive whose message has elements of another type.
type TypeError struct {
	Source int
	Tag    int32
	Got    uint32 // ID of the sender's type
	Want   *Type
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("%v: rank %d sent %s with tag %d, the receive wants %s", ErrType, e.Source, typeName(e.Got), e.Tag, e.Want.Name)
}

// Unwrap returns ErrType.
func (e *TypeError) Unwrap() error { return ErrType }

func peerFailed(rank int, cause error) error {
	return fmt.Errorf("%w: rank %d: %w", ErrPeerFailed, rank, cause)
}
