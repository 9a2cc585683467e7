package shm

import (
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
)

const (
	cellSize  = 64
	inlineMax = 40                  // bytes of messages that travel in one cell
	alsoMax   = 56                  // the same, in a cell that leaves the envelope out
	mostAlike = 31                  // messages in one cell
	restMax   = 56                  // bytes in the second cell of a pair
	pairMax   = inlineMax + restMax // bytes of a message that travels in two cells
)

// cell is one line of a ring. Its word is written last and makes the rest valid:
//
//	bits 0..14   the lap: what an earlier lap left is not taken for new
//	bit  15      1: memory that was never written is no cell
//	bits 16..20  the frame's kind; in a cell of messages alone, their number
//	bits 21..23  the cell's form
//	bits 24..30  the length of each message in an inline cell, or of the one in a pair
//	bit  31      1: the messages have the envelope of the last cell that was open
//	bits 32..63  how many cells of the ring in the other direction are used up
type cell struct {
	word uint64
	label
	body [inlineMax]byte
}

// label is the envelope of a message: what it is matched by.
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

// rest is the second cell of a pair. Its word has the lap as well: a later lap might take anything
// else there for a cell's word.
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
	chunk uint32 // where the payload, or a piece of it, is in the sender's segment
	size  uint32 // bytes of it; 0: none
	_     uint32
}

// Where those fields of a cell's word begin that are changed in place.
const (
	countShift = 16
	formShift  = 21
	alsoBit    = 1 << 31
)

// hasRoom returns how many bytes of messages fit into an inline cell with that word. lengthOf
// returns the length of each.
func hasRoom(w uint64) int {
	if w&alsoBit != 0 {
		return alsoMax
	}
	return inlineMax
}

func lengthOf(w uint64) int { return int(w >> 24 & 0x7f) }

// formOf returns the form of a cell with that word, countOf its number of messages.
func formOf(w uint64) uint64 { return w >> formShift & 7 }

func countOf(w uint64) int { return int(w >> countShift & 31) }

// Forms of a cell.
const (
	formInline = iota // eager messages of the same envelope and length, with their payloads
	formWhole         // any frame; its payload, or the first piece, is in a chunk
	formMore          // the next piece of the frame begun before
	formOpen          // formInline, and messages may be added until a cell follows
	formPair          // an eager message; the rest of its payload is in the next cell
	formRest          // that next cell
	formLone          // an eager message; one chunk holds its payload
	formHalf          // formLone, while the second half of the payload is being written
)

// bytes is the whole cell. Messages are at its end.
func (c *cell) bytes() *[cellSize]byte { return (*[cellSize]byte)(unsafe.Pointer(c)) }

func (c *cell) also() *also { return (*also)(unsafe.Pointer(c)) }

func (c *cell) rest() *rest { return (*rest)(unsafe.Pointer(c)) }

func (c *cell) lone() *lone { return (*lone)(unsafe.Pointer(c)) }

func (c *cell) wide() *wide { return (*wide)(unsafe.Pointer(c)) }

// word makes a cell's word. In an inline cell k is the number of messages.
func word(seq uint16, k rpi.Kind, form, n uint8, used uint32) uint64 {
	return uint64(seq) | uint64(k)<<16 | uint64(form)<<21 | uint64(n)<<24 | uint64(used)<<32
}

// seqOf is the low half-word that marks cells of a lap.
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
