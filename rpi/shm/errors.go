package shm

import "errors"

// Sink.Down gets one of these errors, wrapped with the peer and the details.
var (
	// ErrClosed: the peer has left.
	ErrClosed = errors.New("the peer has left")
	// ErrCorrupt: the peer wrote what no rank writes.
	ErrCorrupt = errors.New("corrupt shared memory")
	// ErrDied: the peer's process has ended.
	ErrDied = errors.New("the peer's process has ended")
)
