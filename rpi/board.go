package rpi

import (
	"sync/atomic"
	"unsafe"
)

// A board is memory that one rank writes and the members of a team read: state
// instead of messages. It is an array of lines, one cache line each, of which
// line n of the team is at place n mod boardDepth, then one more line, the
// farewell, then boardBulks places for payloads too long for a line:
//
//	 0 word u64      base + n, stored last
//	 8 tag  i32
//	12 size u32      bytes of payload; the highest bit: see lineApart
//	16 body [44]byte
//	60 told u32      1 + the place of who has what all want of the turn, 0: see Team.told; stored later
//
// All is in the host's byte order. Numbers at one place only ever rise, also
// when another team uses the board after this one, whose base is higher. So
// who reads the number that it waits for knows that the line is there, and
// who reads a higher one that its writer goes by other rules.
const (
	boardDepth = 64
	boardBulks = 2
	lineBody   = 44
	lineSize   = 64
	boardHead  = (boardDepth + 1) * lineSize

	// lineApart in a size says that the writer does not reach the board of
	// some member of the team.
	lineApart = 1 << 31
)

// BoardSize returns the bytes of a board for pieces of so many bytes, of which
// Boards.Boards gives the number.
func BoardSize(piece int) int { return boardHead + boardBulks*piece }

// pieceOf returns how long a piece may be on a board of so many bytes. Where a rank
// does not reach the board it travels as one frame.
func pieceOf(size int) int {
	return min((size-boardHead)/boardBulks&^(lineSize-1), MaxFrame)
}

type line struct {
	word uint64
	tag  int32
	size uint32
	body [lineBody]byte
	told uint32
}

// board is a board's memory; the zero value is none.
type board struct {
	lines *[boardDepth + 1]line
	bulk  unsafe.Pointer // of boardBulks * piece bytes; nil: not there
	piece int
}

// boardIn returns the board in memory that has room for it. It belongs to
// whoever gave it.
func boardIn(mem []byte, piece int) board {
	p := unsafe.Pointer(unsafe.SliceData(mem))
	return board{
		lines: (*[boardDepth + 1]line)(p),
		bulk:  unsafe.Add(p, boardHead),
		piece: piece,
	}
}

// newMirror returns a board without memory for long payloads.
func newMirror(piece int) board {
	return board{lines: new([boardDepth + 1]line), piece: piece}
}

// at returns the place of line n.
func (b *board) at(n uint64) *line { return &b.lines[n%boardDepth] }

// long returns the place of the payload of line n that is too long for it.
func (b *board) long(n uint64) []byte {
	if b.bulk == nil {
		b.bulk = unsafe.Pointer(unsafe.SliceData(make([]byte, boardBulks*b.piece)))
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.bulk, int(n%boardBulks)*b.piece)), b.piece)
}

// payload returns the payload of line n, whose size was checked.
func (b *board) payload(l *line, n uint64, size int) []byte {
	if size <= lineBody {
		return l.body[:size]
	}
	return b.long(n)[:size]
}

// number returns the number of the line that is there, if any.
func (l *line) number() uint64 { return atomic.LoadUint64(&l.word) }

// post gives the line its number. What was stored before it is seen by whoever
// sees it, and whatever the caller then reads is read after that.
func (l *line) post(n uint64) { atomic.StoreUint64(&l.word, n) }

// copyTo writes the lines, and of the payloads too long for one those of the lines
// named, to another board, whose readers may be looking on.
func (b *board) copyTo(to *board, longs []uint64) {
	for _, n := range longs {
		size := b.at(n).size &^ lineApart
		copy(to.long(n), b.long(n)[:size])
	}
	for i := range b.lines {
		if l, was := &to.lines[i], &b.lines[i]; was.number() != 0 {
			l.tag, l.size, l.body, l.told = was.tag, was.size, was.body, 0
			l.post(was.number())
		}
	}
}
