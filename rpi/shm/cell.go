package shm

import (
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
)

const (
	cellSize  = 64
	inlineMax = 40                  // bytes of messages that travel in one cell
	alsoMax   = 56                  // where their envelope is that of those before
	mostAlike = 31                  // of them
	restMax   = 56                  // bytes of what is in a second one
	pairMax   = inlineMax + restMax // bytes of a message that travels in two
)

// cell is one line of a ring. word is written last and makes the rest valid:
//
//	bits 0..14   the lap, so that what an earlier lap left is not taken for new
//	bit  15      1: memory that was never written is no cell
//	bits 16..20  the frame's kind; in forms of messages alone, how many there are
//	bits 21..23  the cell's form
//	bits 24..30  length of each message in an inline cell, or of that in a pair
//	bit  31      1: the envelope of the messages is that of the last cell that was open
//	bits 32..63  how many cells of the ring in the other direction are used up
type cell struct {
	word uint64
	ctx  uint64
	tag  int32
	typ  uint32
	body [inlineMax]byte
}

// label is the envelope of messages: what they are matched by.
type label struct {
	ctx uint64
	tag int32
	typ uint32
}

// also is an inline cell without an envelope.
type also struct {
	word uint64
	body [alsoMax]byte
}

// rest is the second cell of a pair. Its word has the lap, too: what else could be
// there might be taken for the word of a later one.
type rest struct {
	word uint64
	body [restMax]byte
}

// wide is a cell in the other forms.
type wide struct {
	word  uint64
	ctx   uint64
	tag   int32
	typ   uint32
	len   uint64
	req   uint64
	off   uint64
	flags uint8
	_     [3]byte
	chunk uint32 // where in the sender's segment the payload is, or a piece of it
	size  uint32 // of that piece, 0 if there is none
	_     uint32
}

// Where the fields of a cell's word begin, of those that are changed in place.
const (
	countShift = 16
	formShift  = 21
	alsoBit    = 1 << 31
)

// hasRoom returns how many bytes of messages there are room for in an inline cell of that
// word, and lengthOf that of each.
func hasRoom(w uint64) int {
	if w&alsoBit != 0 {
		return alsoMax
	}
	return inlineMax
}

func lengthOf(w uint64) int { return int(w >> 24 & 0x7f) }

// Forms of a cell.
const (
	formInline = iota // eager messages and their payloads, of the same envelope and length
	formWhole         // any frame; its payload, or the first piece, is in a chunk
	formMore          // the next piece of the frame begun before
	formOpen          // formInline, and messages may be added as long as no cell follows
	formPair          // an eager message, of whose payload the rest is in the next cell
	formRest          // this next one
	formLone          // an eager message, of which one chunk holds the whole payload
	formHalf          // formLone, but the second half of the payload is still being written
)

// bytes is all of it. Messages are in the last of them.
func (c *cell) bytes() *[cellSize]byte { return (*[cellSize]byte)(unsafe.Pointer(c)) }

func (c *cell) also() *also { return (*also)(unsafe.Pointer(c)) }

func (c *cell) rest() *rest { return (*rest)(unsafe.Pointer(c)) }

func (c *cell) lone() *lone { return (*lone)(unsafe.Pointer(c)) }

func (c *cell) wide() *wide { return (*wide)(unsafe.Pointer(c)) }

// word makes one; in an inline cell k is the number of messages.
func word(seq uint16, k rpi.Kind, form, n uint8, used uint32) uint64 {
	return uint64(seq) | uint64(k)<<16 | uint64(form)<<21 | uint64(n)<<24 | uint64(used)<<32
}

// seqOf is how a cell of the lap is marked.
func seqOf(lap uint32) uint16 { return uint16(lap) | 1<<15 }

func (w *wide) put(h *rpi.Header, chunk uint32, size int) {
	w.ctx, w.tag, w.typ = h.Ctx, h.Tag, h.Type
	w.len, w.req, w.off, w.flags = h.Len, h.Req, h.Off, h.Flags
	w.chunk, w.size = chunk, uint32(size)
}

func (w *wide) header(h *rpi.Header) {
	h.Kind, h.Flags = rpi.Kind(w.word>>16&31), w.flags
	h.Ctx, h.Tag, h.Type = w.ctx, w.tag, w.typ
	h.Len, h.Req, h.Off = w.len, w.req, w.off
}
