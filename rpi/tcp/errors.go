package tcp

import "errors"

// The errors for Sink.Down. They are wrapped with the peer and the details. Down may also get an error number
// of the system.
var (
	// ErrClosed: the peer has closed its end, because it has left or died.
	ErrClosed = errors.New("the peer closed the connection")
	// ErrCorrupt: bytes arrived that cannot be a frame.
	ErrCorrupt = errors.New("corrupt stream")
	// ErrRefused: the process at the peer's address does not accept us as a rank of its job, or does not prove
	// that it is a rank of ours.
	ErrRefused = errors.New("handshake refused")
	// ErrNoAnswer: the peer has not accepted in time.
	ErrNoAnswer = errors.New("no answer to the handshake")
	// ErrNoWay: the peer has no address that this machine could call.
	ErrNoWay = errors.New("no way to any of its addresses")
)
