package shmcoll

import (
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// A board is memory that one rank writes and the members of a team read. It is an array of lines,
// one cache line each: line n of the team is at place n mod boardDepth. One more line follows, the
// farewell, and then boardBulks places for payloads too long for a line. A line is
//
//	 0 word u64      base + n, stored last
//	 8 tag  i32
//	12 size u32      bytes of payload; the highest bit: see lineUnreached
//	16 body [44]byte
//	60 told u32      1 + the place of a member that has what all want of the turn, 0: not known.
//	                 Stored later: see Team.told
//
// All is in the host's byte order. Numbers at one place only rise, even when another team uses the
// board after this one: its base is higher. So a reader that sees the number it waits for knows
// that the line is there. A reader that sees a higher one knows that its writer breaks the rules.
const (
	lineBody   = 44
	lineSize   = 64
	boardHead  = shared.BoardHead
	boardDepth = boardHead/lineSize - 1
	boardBulks = shared.BoardBulks

	// lineUnreached in a size says that the writer does not reach the board of
	// some member of the team.
	lineUnreached = 1 << 31
)

// pieceOf returns how long a payload may be on a board of so many bytes. It also fits into one
// frame, for members that do not reach the board.
func pieceOf(size int) int {
	return min((size-boardHead)/boardBulks&^(lineSize-1), rpi.MaxFrame)
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
	bulk  unsafe.Pointer // boardBulks * piece bytes; nil: none yet
	piece int
}

// boardIn returns the board in mem, which has room for it and stays its owner's.
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

// long returns the place of the long payload of line n.
func (b *board) long(n uint64) []byte {
	if b.bulk == nil {
		b.bulk = unsafe.Pointer(unsafe.SliceData(make([]byte, boardBulks*b.piece)))
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.bulk, int(n%boardBulks)*b.piece)), b.piece)
}

// payload returns the payload of line n, whose size was checked before.
func (b *board) payload(l *line, n uint64, size int) []byte {
	if size <= lineBody {
		return l.body[:size]
	}
	return b.long(n)[:size]
}

// number returns the number of the line that is there, if any.
func (l *line) number() uint64 { return atomic.LoadUint64(&l.word) }

// post gives the line its number. A reader that sees the number sees what was stored before it.
// What the caller reads next is read after it.
func (l *line) post(n uint64) { atomic.StoreUint64(&l.word, n) }

// copyTo writes all lines to another board, whose readers may be looking on, and the long payloads
// of the lines named.
func (b *board) copyTo(to *board, longs []uint64) {
	for _, n := range longs {
		size := b.at(n).size &^ lineUnreached
		copy(to.long(n), b.long(n)[:size])
	}
	for i := range b.lines {
		if l, was := &to.lines[i], &b.lines[i]; was.number() != 0 {
			l.tag, l.size, l.body, l.told = was.tag, was.size, was.body, 0
			l.post(was.number())
		}
	}
}
