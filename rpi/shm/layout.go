package shm

import (
	"sync/atomic"
	"unsafe"
)

// Offsets within the control part of a segment. See the package comment.
const (
	atBase     = 40  // u64: where in the memory of its owner the segment is
	atBell     = 64  // u32: how its owner sleeps
	atArrivals = 128 // u32: counts changes of the words at atDoors
	atAsked    = 144 // u32 for each board: a peer waits for its owner's next line
	atDoors    = 192 // u64 for each rank, written by it: its ring to the owner

	line     = 64
	pageSize = 4096
)

// The bell of a rank, a futex.
const (
	bellArmed = 1 << iota // the rank sleeps or is about to: wake it when something comes
	bellRoom              // wake it when there is room, too
	bellWoken             // Wake was called
)

// A door tells a rank where another's ring to it is: the place in that rank's segment in units of
// 64 bytes (32 bits), the logarithm of the number of cells (8 bits), and these bits:
const (
	doorOpen   = 1 << 40
	doorClosed = 1 << 41 // the rank has left: nothing more comes into the ring
)

func door(at int, shift uint8) uint64 { return uint64(at/line) | uint64(shift)<<32 | doorOpen }

// control is the control part of a segment in a job of size ranks.
type control struct {
	mem  []byte
	size int
}

func controlSize(size int) int { return pages(atSlots(size) + slots*line) }

func atSlots(size int) int { return atTaken(size) + size*line }

func atTaken(size int) int { return (atDoors + 8*size + line - 1) / line * line }

func pages(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }

func (c control) u32(at int) *uint32 { return (*uint32)(unsafe.Pointer(&c.mem[at])) }
func (c control) u64(at int) *uint64 { return (*uint64)(unsafe.Pointer(&c.mem[at])) }

func (c control) bell() *uint32         { return c.u32(atBell) }
func (c control) arrivals() *uint32     { return c.u32(atArrivals) }
func (c control) door(rank int) *uint64 { return c.u64(atDoors + 8*rank) }

// taken is how many cells of the ring of that rank the owner has used up.
func (c control) taken(rank int) *uint32 { return c.u32(atTaken(c.size) + line*rank) }

func (c control) base() *uint64 { return c.u64(atBase) }

// slot returns the owner's i-th slot for a published buffer.
func (c control) slot(i int) *slot {
	return (*slot)(unsafe.Pointer(&c.mem[atSlots(c.size)+line*i : atSlots(c.size)+line*(i+1)][0]))
}

func (c control) asked(board int) *uint32 { return c.u32(atAsked + 4*board) }

// change sets the rank's door and tells the owner.
func (c control) change(rank int, word uint64) {
	atomic.StoreUint64(c.door(rank), word)
	atomic.AddUint32(c.arrivals(), 1)
}

// geometry is the size of rings, pool and boards. The number of rings on a machine grows with the
// square of the number of ranks, so each becomes smaller. If every one of 64 ranks sends to every
// other, their rings take 16 MB, and their pools 20 MB. Their boards take 27 MB if all are used,
// as long messages in large pieces take fewer turns.
type geometry struct {
	shift        uint8 // a ring has 1 << shift cells
	small, large int   // chunks of a rank's pool
	first, other int   // pages of a board
}

const (
	smallChunk = 2 << 10
	largeChunk = 16 << 10

	minShift, maxShift = 6, 10
	maxSmall, maxLarge = 512, 64
)

func geometryOf(local int) geometry {
	switch {
	case local <= 2:
		return geometry{10, maxSmall, maxLarge, mostFirst, mostOther}
	case local <= 4:
		return geometry{9, maxSmall, maxLarge, mostFirst, mostOther}
	case local <= 8:
		return geometry{9, 256, 64, mostFirst, mostOther}
	case local <= 16:
		return geometry{8, 256, 32, mostFirst, 10}
	case local <= 64:
		return geometry{6, 64, 12, 88, 3}
	}
	return geometry{6, 32, 8, 10, 3}
}

// layout says where things are in a segment of a job of size ranks. It is the same in all segments
// of the job. The number of ranks on the machine is not known when the segment is made, so there
// is room for any number. Unused room is never touched and takes no memory.
type layout struct {
	control int // bytes; the part that others write
	boards  int // where boards begin
	rings   int // where rings begin
	pool    int // where the pool begins
	size    int
}

func layoutOf(size int) layout {
	most := 0
	for _, local := range []int{2, 4, 8, 16, 64, size} {
		if local <= size {
			most = max(most, (local-1)*cellSize<<geometryOf(local).shift)
		}
	}
	l := layout{control: controlSize(size)}
	l.boards = l.control
	at, _ := boardRoom(boards)
	l.rings = l.boards + at
	l.pool = l.rings + pages(most)
	l.size = l.pool + maxSmall*smallChunk + maxLarge*largeChunk
	return l
}
