package shared

import "github.com/gorun-mpi/gorun/rpi"

// Shortcut is implemented by modules whose short messages can do without the engine's header and
// without upcalls. Its methods are for Eager messages without flags. Each may refuse any message,
// which then goes the long way.
type Shortcut interface {
	// SendShort is Send of a message without flags, with the result Taken. If it reports false, it
	// has done nothing, and Send is to be called.
	SendShort(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool
	// TakeShort is a Poll for a caller that waits for one message. If the next frame of the peer
	// is a message of that context, tag and type and no longer than buf, it copies the message
	// there and returns its length. The message then counts as delivered. Otherwise nothing is
	// delivered. TakeNone says that a Poll would find nothing to do. TakeOther says that the
	// caller should poll. TakePart says that buf holds a part of the message: a Poll will deliver
	// all of it when the rest is there.
	TakeShort(peer int, ctx uint64, tag int32, typ uint32, buf []byte) int
	// Open returns what was sent last to the peer. It is always the same pointer, until Restart.
	Open(peer int) *Open
}

const (
	TakeNone  = -1
	TakeOther = -2
	TakePart  = -3
)

// AlikeSink is implemented by sinks that take several messages of one envelope and length
// together.
type AlikeSink interface {
	// DeliverAlike is Deliver for count Eager frames with the same header, whose payloads follow
	// one another. It takes as many from the first on as is simple, and returns how many. The rest
	// is for Deliver. If enough is true the rest should wait, as after rpi.Enough.
	DeliverAlike(peer int, h *rpi.Header, payloads []byte, count int) (taken int, enough bool)
}
