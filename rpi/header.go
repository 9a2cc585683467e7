package rpi

import "encoding/binary"

// Kind tells what a frame is.
type Kind uint8

// The frames that travel between two ranks. All of them are counted in the
// bookmarks, each with HeaderSize plus its payload.
const (
	Eager     Kind = 1 + iota // a whole message; payload Len bytes
	EagerSync                 // the same, and the sender waits for an Ack carrying Req
	RTS                       // announces a message of Len bytes (rendezvous); Req is the sender's request, Off the key with FlagDirect
	CTS                       // go-ahead: Req is the sender's request, Off the receiver's, Len the bytes wanted
	Data                      // Len payload bytes of a message at Off; Req is the receiver's request
	Direct                    // the same, but the bytes were written straight into the receiver's memory
	Ack                       // a synchronous eager send was matched; Req is the sender's request
	Poison                    // the communicator Ctx has failed at the sender; Off is a Poison code
	Fin                       // the receiver has read Off bytes of a published message itself and will read no more; Req is the sender's request
	Line                      // line Off of a team of context Ctx, payload Len bytes; Req tells the team from earlier ones (see internal/rank/shmcoll)
)

// HeaderSize is the size in bytes of a frame's header on the wire.
const HeaderSize = 48

// MaxFrame is the longest message in bytes that travels as one frame. A longer one is announced (RTS) and
// travels as Data frames. Each names its request and offset, so a half-sent message can be finished over
// another transport.
const MaxFrame = 256 << 10

// MaxData is the largest payload of a Data frame in bytes. It exceeds MaxFrame, because a Data frame has its
// place in the receiver's buffer and never has to be kept. Each is one write to a socket, and fewer writes are
// faster.
const MaxData = 1 << 20

// Header is the head of every frame. On the wire it is little-endian:
//
//	0 kind  u8     8 type u32    24 len u64   40 off u64
//	1 flags u8    12 -    u32    32 req u64
//	2 -     u16   16 ctx  u64
//	4 tag   i32
//
// The payload that follows is in the sender's byte order. A job whose ranks differ in byte order is refused at
// start.
type Header struct {
	Kind  Kind
	Flags uint8
	Tag   int32
	Type  uint32 // Type.ID of the elements
	Ctx   uint64 // the communicator's context
	Len   uint64 // bytes; see Kind
	Req   uint64 // see Kind
	Off   uint64 // see Kind
}

// PayloadLen returns how many payload bytes follow the header on a stream.
func (h *Header) PayloadLen() int {
	switch h.Kind {
	case Eager, EagerSync, Data, Line:
		return int(h.Len)
	}
	return 0
}

// Counted returns what the frame adds to the bookmarks, in bytes. For a Direct frame that includes the bytes
// written past the stream.
func (h *Header) Counted() uint64 {
	switch h.Kind {
	case Eager, EagerSync, Data, Direct, Line:
		return HeaderSize + h.Len
	}
	return HeaderSize
}

// Encode writes the header to p, which has at least HeaderSize bytes.
func (h *Header) Encode(p []byte) {
	_ = p[HeaderSize-1]
	p[0], p[1], p[2], p[3] = byte(h.Kind), h.Flags, 0, 0
	binary.LittleEndian.PutUint32(p[4:], uint32(h.Tag))
	binary.LittleEndian.PutUint32(p[8:], h.Type)
	binary.LittleEndian.PutUint32(p[12:], 0)
	binary.LittleEndian.PutUint64(p[16:], h.Ctx)
	binary.LittleEndian.PutUint64(p[24:], h.Len)
	binary.LittleEndian.PutUint64(p[32:], h.Req)
	binary.LittleEndian.PutUint64(p[40:], h.Off)
}

// Decode reads the header from p, which has at least HeaderSize bytes. It reports whether the header is Valid.
func (h *Header) Decode(p []byte) bool {
	_ = p[HeaderSize-1]
	h.Kind, h.Flags = Kind(p[0]), p[1]
	h.Tag = int32(binary.LittleEndian.Uint32(p[4:]))
	h.Type = binary.LittleEndian.Uint32(p[8:])
	h.Ctx = binary.LittleEndian.Uint64(p[16:])
	h.Len = binary.LittleEndian.Uint64(p[24:])
	h.Req = binary.LittleEndian.Uint64(p[32:])
	h.Off = binary.LittleEndian.Uint64(p[40:])
	return h.Valid()
}

// Valid reports whether there can be such a frame. It must be of a known kind. Its payload must be no longer
// than MaxFrame, or MaxData for a Data frame.
func (h *Header) Valid() bool {
	switch h.Kind {
	case Eager, EagerSync, Line:
		return h.Len <= MaxFrame
	case Data:
		return h.Len <= MaxData
	case RTS, CTS, Direct, Ack, Poison, Fin:
		return true
	}
	return false
}

// Flags of a header.
const (
	FlagDirect   uint8 = 1 << iota // CTS: the buffer is published, Ctx is the key (see DirectWriter); RTS: the same, Off is the key (see DirectReader)
	FlagGone                       // Data: the sender has given the message up; CTS, Ack: the receiver has dropped it; Line: the sender has given the team up (with FlagMirrored: and forgotten it; Req is the receiver's own)
	FlagPull                       // CTS: the receiver reads the first part itself and says so with Fin
	FlagMirrored                   // Line: the sender does not reach the boards of all members
)
