package tcp

import "errors"

// What Sink.Down is told is one of these, wrapped with the peer and what was
// found, or an error number of the system.
var (
	// ErrClosed: the peer has closed its end: it has left, or died.
	ErrClosed = errors.New("the peer closed the connection")
	// ErrCorrupt: bytes arrived that cannot be a frame.
	ErrCorrupt = errors.New("corrupt stream")
	// ErrRefused: the peer, or whoever listens at its address, does not take
	// us for a rank of its job, or does not prove to be of ours.
	ErrRefused = errors.New("handshake refused")
	// ErrNoAnswer: the peer has not accepted in time.
	ErrNoAnswer = errors.New("no answer to the handshake")
)
